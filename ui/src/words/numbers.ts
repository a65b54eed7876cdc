/** Numbers, sizes and durations in words. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(number: number): string {
  return whole.format(number);
}

/** `1 item`, `1,924 items`. */
export function counted(number: number, one: string, many: string = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function percent(share: number): string {
  return `${oneDigit.format(100 * share)} %`;
}

export function bytes(number: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let size = number;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(size) : oneDigit.format(size)} ${units[unit] ?? ""}`;
}

/** `350 ms`, `4.2 s`, `3 min 05 s`, `2 h 07 min`, `3 d 4 h`: two units at most. */
export function duration(seconds: number): string {
  if (seconds < 0) return "0 s";
  if (seconds < 1) return `${whole.format(1000 * seconds)} ms`;
  if (seconds < 60) return `${oneDigit.format(seconds)} s`;
  const total = Math.round(seconds);
  if (total < 3600) return `${Math.floor(total / 60)} min ${padded(total % 60)} s`;
  if (total < 86_400) return `${Math.floor(total / 3600)} h ${padded(Math.floor((total % 3600) / 60))} min`;
  return `${count(Math.floor(total / 86_400))} d ${Math.floor((total % 86_400) / 3600)} h`;
}

function padded(number: number): string {
  return String(number).padStart(2, "0");
}

/** What differs between two texts, line by line: `-` only in the first, `+` only in the second. */

const MOST_LINES = 3_000;
const AROUND = 3;

export function diffOf(before: string, after: string): readonly string[] {
  const left = before.split("\n");
  const right = after.split("\n");
  if (left.length > MOST_LINES || right.length > MOST_LINES) return ["The texts are too long to compare here."];
  const common = commonLengths(left, right);
  const lines: string[] = [];
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      lines.push(`  ${left[i] ?? ""}`);
      i += 1;
      j += 1;
    } else if (i < left.length && (j === right.length || at(common, i + 1, j) >= at(common, i, j + 1))) {
      lines.push(`- ${left[i] ?? ""}`);
      i += 1;
    } else {
      lines.push(`+ ${right[j] ?? ""}`);
      j += 1;
    }
  }
  return nearChanges(lines);
}

/** For each pair of places, how many lines the rests have in common. */
function commonLengths(left: readonly string[], right: readonly string[]): readonly Uint16Array[] {
  const table = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    const row = table[i];
    if (row === undefined) continue;
    for (let j = right.length - 1; j >= 0; j -= 1) {
      row[j] = left[i] === right[j] ? at(table, i + 1, j + 1) + 1 : Math.max(at(table, i + 1, j), at(table, i, j + 1));
    }
  }
  return table;
}

function at(table: readonly Uint16Array[], i: number, j: number): number {
  return table[i]?.[j] ?? 0;
}

function nearChanges(lines: readonly string[]): readonly string[] {
  const changed = lines.flatMap((line, index) => (line.startsWith("  ") ? [] : [index]));
  const near = new Set(changed.flatMap((index) => Array.from({ length: 2 * AROUND + 1 }, (_, step) => index - AROUND + step)));
  const shown: string[] = [];
  let last = -1;
  for (const [index, line] of lines.entries()) {
    if (!near.has(index)) continue;
    if (index > last + 1) shown.push("…");
    shown.push(line);
    last = index;
  }
  return shown;
}

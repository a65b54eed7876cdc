/** The items of a node in the order in which they are shown, computed from their statuses alone. */

export type Runs = readonly (readonly [string, number])[];

export interface Order {
  /** The index of the item in each row. */
  readonly rows: Int32Array;
  /** How many rows at the beginning have a status that comes first. */
  readonly first: number;
}

/** All items by index; those with the status `first` before the others. */
export function orderOf(runs: Runs, first: string | null): Order {
  const total = runs.reduce((sum, [, number]) => sum + number, 0);
  const rows = new Int32Array(total);
  const count = first === null ? 0 : runs.reduce((sum, [status, number]) => sum + (status === first ? number : 0), 0);
  let front = 0;
  let back = count;
  let index = 0;
  for (const [status, number] of runs) {
    for (const end = index + number; index < end; index += 1) {
      if (status === first) {
        rows[front] = index;
        front += 1;
      } else {
        rows[back] = index;
        back += 1;
      }
    }
  }
  return { rows, first: count };
}

/** Only the items with a status. */
export function only(runs: Runs, wanted: string): Order {
  const { rows, first } = orderOf(runs, wanted);
  return { rows: rows.slice(0, first), first };
}

/** The status of each item, for a strip of so many places: of several items in one place the worst is shown. */
export function stripOf(runs: Runs, places: number): readonly string[] {
  const total = runs.reduce((sum, [, number]) => sum + number, 0);
  const shown: string[] = Array.from({ length: Math.min(places, total) }, () => "completed");
  const step = total / shown.length;
  let index = 0;
  for (const [status, number] of runs) {
    const from = Math.floor(index / step);
    const to = Math.min(shown.length - 1, Math.floor((index + number - 1) / step));
    for (let place = from; place <= to; place += 1) {
      if (rank(status) > rank(shown[place] ?? "completed")) shown[place] = status;
    }
    index += number;
  }
  return shown;
}

const RANKS = ["completed", "skipped", "cancelled", "pending", "ready", "dispatched", "running", "failed"];

function rank(status: string): number {
  return RANKS.indexOf(status);
}

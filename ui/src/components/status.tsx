/** Statuses as badges and bars. Colour, sign and word say the same. */

import { count } from "../words/numbers";
import { lookOf } from "../words/status";

export function StatusBadge({ status, note }: { readonly status: string; readonly note?: string | null }) {
  const look = lookOf(status);
  return (
    <span className={`badge tone-${look.tone}`}>
      <span aria-hidden="true">{look.sign}</span> {status}
      {note ? <span className="badge-note"> · {note}</span> : null}
    </span>
  );
}

/** What holds work back, beside its status. */
export function HeldMark({ held }: { readonly held: { readonly by: string; readonly name: string } | null | undefined }) {
  if (!held) return null;
  return (
    <span className="held" title={`Held by the ${held.by} ${held.name}`}>
      ‖ held by {held.by === held.name ? held.by : `${held.by} ${held.name}`}
    </span>
  );
}

const PARTS = ["completed", "failed", "running", "skipped", "cancelled", "queued"] as const;
const PART_STATUS: Readonly<Record<(typeof PARTS)[number], string>> = {
  completed: "completed",
  failed: "failed",
  running: "running",
  skipped: "skipped",
  cancelled: "cancelled",
  queued: "pending",
};

export interface BarCounts {
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
  readonly running?: number;
  readonly skipped?: number;
  readonly cancelled?: number;
  readonly queued?: number;
}

/** How the tasks of a job or a node stand, as one bar. It has as many parts as there are statuses, never one per task. */
export function StateBar({ counts }: { readonly counts: BarCounts }) {
  const known = PARTS.reduce((sum, part) => sum + (part === "queued" ? 0 : (counts[part] ?? 0)), 0);
  const shown = PARTS.map((part) => [part, part === "queued" ? counts.total - known : (counts[part] ?? 0)] as const);
  const words = shown
    .filter(([, number]) => number > 0)
    .map(([part, number]) => `${count(number)} ${part === "queued" ? "waiting" : part}`)
    .join(", ");
  return (
    <span className="bar" role="img" aria-label={words || "no tasks"} title={words || "no tasks"}>
      {shown.map(([part, number]) =>
        number > 0 ? (
          <span key={part} className={`bar-part tone-${lookOf(PART_STATUS[part]).tone}`} style={{ flexGrow: number }} />
        ) : null,
      )}
    </span>
  );
}

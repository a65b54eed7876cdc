/** How the statuses of jobs, nodes and tasks are shown: one word, one colour and one sign for each, everywhere. */

export type Tone = "waiting" | "running" | "completed" | "partial" | "failed" | "withdrawn";

interface Look {
  readonly tone: Tone;
  /** A sign beside the colour, so that a status can be read without colours. */
  readonly sign: string;
}

const LOOKS: Readonly<Record<string, Look>> = {
  pending: { tone: "waiting", sign: "○" },
  ready: { tone: "waiting", sign: "○" },
  dispatched: { tone: "waiting", sign: "◔" },
  running: { tone: "running", sign: "▶" },
  completed: { tone: "completed", sign: "✓" },
  partial: { tone: "partial", sign: "◑" },
  failed: { tone: "failed", sign: "✗" },
  skipped: { tone: "withdrawn", sign: "»" },
  cancelled: { tone: "withdrawn", sign: "⊘" },
};

export const STATUSES = Object.keys(LOOKS);
export const JOB_STATUSES = ["pending", "running", "completed", "partial", "failed", "cancelled"] as const;
export const ENDED: ReadonlySet<string> = new Set(["completed", "partial", "failed", "cancelled", "skipped"]);

export function lookOf(status: string): Look {
  return LOOKS[status] ?? { tone: "waiting", sign: "?" };
}

export function hasEnded(status: string): boolean {
  return ENDED.has(status);
}

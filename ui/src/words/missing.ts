/** What is missing of a job that is not complete, in a word or two. */

import { counted } from "./numbers";

interface Summary {
  readonly status: string;
  readonly counts: { readonly total: number; readonly completed: number; readonly failed: number };
}

export function missingWords({ status, counts }: Summary): string | null {
  if (status !== "partial") return null;
  if (counts.failed > 0) return `${counted(counts.failed, "task")} failed`;
  const missing = counts.total - counts.completed;
  return missing > 0 ? `${counted(missing, "task")} missing` : null;
}

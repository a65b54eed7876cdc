/** One task of a job. */

import type { Job } from "../job/job";

export function TaskPage({ node, item }: { readonly job: Job; readonly node: string; readonly item: number }) {
  return (
    <h1>
      {node} {item}
    </h1>
  );
}

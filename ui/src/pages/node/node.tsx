/** One node of a job. */

import type { Job } from "../job/job";

export function NodePage({ name }: { readonly job: Job; readonly name: string }) {
  return <h1>{name}</h1>;
}

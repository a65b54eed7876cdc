/** Resuming a job with other inputs: what has completed with the same params stays. */

import { JsonDialog } from "../../verbs/json_dialog";
import type { Job } from "./job";

export function CorrectDialog({ job, onClose }: { readonly job: Job; readonly onClose: () => void }) {
  return (
    <JsonDialog
      title="Correct the inputs, and resume"
      label="Inputs"
      text={JSON.stringify(job.inputs ?? {}, null, 2)}
      wishOf={(value) => {
        const inputs = changedInputs(value, job.inputs);
        return typeof inputs === "string" ? inputs : { jobId: job.job_id, verb: "resume", args: { inputs } };
      }}
      onClose={onClose}
    >
      <p>
        Change the inputs that were wrong. What has completed with the same params is kept; the plan shows what runs again. If only a handler
        was wrong, mend it and resume: that needs no correction.
      </p>
    </JsonDialog>
  );
}

/** The inputs that differ; or why there is nothing to plan. */
function changedInputs(wanted: unknown, before: unknown): Readonly<Record<string, unknown>> | string {
  if (typeof wanted !== "object" || wanted === null || Array.isArray(wanted)) return "Inputs are an object: names and values.";
  const known = (before ?? {}) as Readonly<Record<string, unknown>>;
  const changed = Object.entries(wanted).filter(([name, value]) => JSON.stringify(known[name]) !== JSON.stringify(value));
  return changed.length === 0 ? "Nothing differs from the inputs of the job." : Object.fromEntries(changed);
}

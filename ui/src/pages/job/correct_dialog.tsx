/** Resuming a job with other inputs: what has completed with the same params stays. */

import { useState } from "react";

import { Dialog } from "../../components/dialog";
import { PlanDialog } from "../../verbs/plan_dialog";
import { parsedJson } from "../../words/json";
import type { Job } from "./job";

export function CorrectDialog({ job, onClose }: { readonly job: Job; readonly onClose: () => void }) {
  const [text, setText] = useState(() => JSON.stringify(job.inputs ?? {}, null, 2));
  // What was planned, as it was: once it is done, nothing differs any more.
  const [planned, setPlanned] = useState<Readonly<Record<string, unknown>> | null>(null);
  const parsed = changedInputs(text, job.inputs);
  if (planned !== null) {
    return <PlanDialog wish={{ jobId: job.job_id, verb: "resume", args: { inputs: planned } }} onClose={onClose} />;
  }
  return (
    <Dialog title="Correct the inputs, and resume" onClose={onClose} isWide>
      <p>
        Change the inputs that were wrong. What has completed with the same params is kept; the plan shows what runs again. If only a handler
        was wrong, mend it and resume: that needs no correction.
      </p>
      <label className="field">
        <span>Inputs, as JSON</span>
        <textarea rows={12} value={text} spellCheck={false} onChange={(event) => setText(event.target.value)} />
      </label>
      {typeof parsed === "string" ? <p role="status">{parsed}</p> : null}
      <div className="dialog-foot">
        <button type="button" className="button" onClick={onClose}>
          Leave it
        </button>
        <button type="button" className="button main-action" disabled={typeof parsed === "string"} onClick={() => setPlanned(typeof parsed === "string" ? null : parsed)}>
          Show the plan
        </button>
      </div>
    </Dialog>
  );
}

/** The inputs that differ; or why there is nothing to plan. */
export function changedInputs(text: string, before: unknown): Readonly<Record<string, unknown>> | string {
  const parsed = parsedJson(text);
  if (!parsed.isValid) return parsed.problem;
  const wanted = parsed.value;
  if (typeof wanted !== "object" || wanted === null || Array.isArray(wanted)) return "Inputs are an object: names and values.";
  const known = (before ?? {}) as Readonly<Record<string, unknown>>;
  const changed = Object.entries(wanted).filter(([name, value]) => JSON.stringify(known[name]) !== JSON.stringify(value));
  return changed.length === 0 ? "Nothing differs from the inputs of the job." : Object.fromEntries(changed);
}

/** Giving the result of a node by hand. */

import { useState } from "react";

import { useMay } from "../../api/session";
import { Dialog } from "../../components/dialog";
import { PlanDialog } from "../../verbs/plan_dialog";
import { parsedJson } from "../../words/json";
import type { Job } from "../job/job";

export function SetDialogButton({ job, node, isPossible }: { readonly job: Job; readonly node: string; readonly isPossible: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const [isPlanning, setPlanning] = useState(false);
  const [text, setText] = useState("{}");
  const mayOperate = useMay("operate");
  const parsed = parsedJson(text);
  function close(): void {
    setOpen(false);
    setPlanning(false);
  }
  // An open dialog stays when the node has completed: it says that it is done.
  if (!mayOperate || (!isPossible && !isOpen)) return null;
  return (
    <>
      <button type="button" className="button" title="Give its result by hand" onClick={() => setOpen(true)}>
        Set its result …
      </button>
      {isOpen && isPlanning && parsed.isValid ? (
        <PlanDialog wish={{ jobId: job.job_id, verb: "set", args: { node, output: parsed.value } }} onClose={close} />
      ) : isOpen ? (
        <Dialog title={`The result of ${node}`} onClose={close}>
          <label className="field">
            <span>Result, as JSON</span>
            <textarea rows={10} value={text} spellCheck={false} onChange={(event) => setText(event.target.value)} />
          </label>
          {parsed.isValid ? null : <p role="status">{parsed.problem}</p>}
          <div className="dialog-foot">
            <button type="button" className="button" onClick={close}>
              Leave it
            </button>
            <button type="button" className="button main-action" disabled={!parsed.isValid} onClick={() => setPlanning(true)}>
              Show the plan
            </button>
          </div>
        </Dialog>
      ) : null}
    </>
  );
}

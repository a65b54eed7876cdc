/** A value that a person writes as JSON, then the plan of the verb that takes it. */

import { type ReactNode, useState } from "react";

import { useMay } from "../api/session";
import { Dialog } from "../components/dialog";
import { parsedJson } from "../words/json";
import { PlanDialog } from "./plan_dialog";
import type { Wish } from "./send";

interface Written {
  readonly title: string;
  readonly label: string;
  /** What stands there first. */
  readonly text: string;
  /** The verb with this value; or why there is nothing to plan. */
  readonly wishOf: (value: unknown) => Wish | string;
  readonly children?: ReactNode;
}

export function JsonDialog({ title, label, text: first, wishOf, children, onClose }: Written & { readonly onClose: () => void }) {
  const [text, setText] = useState(first);
  // What was planned, as it was: once it is done, it may not be possible any more.
  const [planned, setPlanned] = useState<Wish | null>(null);
  if (planned !== null) return <PlanDialog wish={planned} onClose={onClose} />;
  const parsed = parsedJson(text);
  const wish = parsed.isValid ? wishOf(parsed.value) : parsed.problem;
  return (
    <Dialog title={title} onClose={onClose} isWide>
      {children}
      <label className="field">
        <span>{label}, as JSON</span>
        <textarea rows={12} value={text} spellCheck={false} onChange={(event) => setText(event.target.value)} />
      </label>
      {typeof wish === "string" ? <p role="status">{wish}</p> : null}
      <div className="dialog-foot">
        <button type="button" className="button" onClick={onClose}>
          Leave it
        </button>
        <button
          type="button"
          className="button main-action"
          disabled={typeof wish === "string"}
          onClick={() => setPlanned(typeof wish === "string" ? null : wish)}
        >
          Show the plan
        </button>
      </div>
    </Dialog>
  );
}

interface Opening extends Written {
  readonly button: string;
  readonly hint?: string;
  readonly isPossible: boolean;
}

/** The button that opens it, for those who may. */
export function JsonButton({ button, hint, isPossible, ...written }: Opening) {
  const [isOpen, setOpen] = useState(false);
  const mayOperate = useMay("operate");
  // An open dialog stays when the verb is not possible any more: it says that it is done.
  if (!mayOperate || (!isPossible && !isOpen)) return null;
  return (
    <>
      <button type="button" className="button" title={hint} onClick={() => setOpen(true)}>
        {button}
      </button>
      {isOpen ? <JsonDialog {...written} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

/** A small change with a reason: what it does, the command that does the same, and one button. */

import { useState, type ReactNode } from "react";

import { useChange } from "../api/hooks";
import { Command } from "./command";
import { Dialog } from "./dialog";
import { Failed } from "./states";

interface Props {
  readonly label: string;
  readonly title: string;
  readonly kind?: "main-action" | "danger";
  readonly children?: ReactNode;
  /** Without it, no reason is asked. */
  readonly hasReason?: boolean;
  readonly command?: (reason: string) => string;
  readonly send: (reason: string) => Promise<unknown>;
  /** What is shown after it was done, instead of closing. */
  readonly result?: (answer: unknown) => ReactNode;
  readonly isReady?: boolean;
  readonly action?: string;
}

export function ChangeButton({ label, title, kind, children, hasReason = false, command, send, result, isReady = true, action }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [reason, setReason] = useState("");
  const change = useChange(send);
  function close(): void {
    setOpen(false);
    setReason("");
    change.reset();
  }
  return (
    <>
      <button type="button" className={`button ${kind ?? ""}`} onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen ? (
        <Dialog title={title} onClose={close}>
          {change.isSuccess && result !== undefined ? (
            <>
              {result(change.data)}
              <div className="dialog-foot">
                <button type="button" className="button main-action" onClick={close}>
                  Close
                </button>
              </div>
            </>
          ) : (
            <form
              onSubmit={(event) => {
                event.preventDefault();
                change.mutate(reason.trim(), { onSuccess: () => (result === undefined ? close() : undefined) });
              }}
            >
              {children}
              {hasReason ? (
                <label className="field">
                  <span>Reason</span>
                  <input value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} placeholder="Why; it is stored." />
                </label>
              ) : null}
              {change.error ? <Failed error={change.error} /> : null}
              <div className="dialog-foot">
                <span className="grow">{command === undefined ? null : <Command text={command(reason.trim())} />}</span>
                <button type="button" className="button" onClick={close}>
                  Leave it
                </button>
                <button type="submit" className={`button ${kind === "danger" ? "danger" : "main-action"}`} disabled={!isReady || change.isPending}>
                  {action ?? "Do it"}
                </button>
              </div>
            </form>
          )}
        </Dialog>
      ) : null}
    </>
  );
}

/** A button that opens the plan of a verb. People who may not do it do not see it. */

import { useState, type ReactNode } from "react";

import { useMay } from "../api/session";
import { PlanDialog } from "./plan_dialog";
import type { Wish } from "./send";

interface Props extends Wish {
  readonly children: ReactNode;
  readonly kind?: "main-action" | "danger";
  readonly title?: string;
}

export function VerbButton({ children, kind, title, ...wish }: Props) {
  const [isOpen, setOpen] = useState(false);
  const mayOperate = useMay("operate");
  if (!mayOperate) return null;
  return (
    <>
      <button type="button" className={`button ${kind ?? ""}`} title={title} onClick={() => setOpen(true)}>
        {children}
      </button>
      {isOpen ? <PlanDialog wish={wish} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

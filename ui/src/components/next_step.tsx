/** What helps: in words, as a command to copy. */

import type { Schemas } from "../api/client";
import { Command } from "./command";

export function NextStep({ step }: { readonly step: Schemas["NextStep"] | null }) {
  if (step === null) return null;
  return step.command === null ? (
    <span className="quiet">{step.text}</span>
  ) : (
    <span className="row">
      <span className="quiet">{step.text}</span> <Command text={step.command} />
    </span>
  );
}

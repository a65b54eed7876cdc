/** Something that can be read now, and never again. */

import { Copy } from "./command";

export function Secret({ value, what }: { readonly value: string; readonly what: string }) {
  return (
    <div className="banner tone-partial">
      <p>Keep this {what} now: it can be read nowhere else, and never again.</p>
      <p className="row">
        <code className="wrap">{value}</code> <Copy text={value} what={what} />
      </p>
    </div>
  );
}

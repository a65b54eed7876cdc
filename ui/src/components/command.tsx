/** A command to copy: whatever a button does, the command line does too. */

import { useState } from "react";

const SHOWN_MS = 1_500;

export function Command({ text }: { readonly text: string }) {
  return (
    <span className="command">
      <code>{text}</code>
      <Copy text={text} what="command" />
    </span>
  );
}

export function Copy({ text, what }: { readonly text: string; readonly what: string }) {
  const [isCopied, setCopied] = useState(false);
  function copy(): void {
    void copyText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), SHOWN_MS);
    });
  }
  return (
    <button type="button" className="copy" onClick={copy} aria-label={`Copy the ${what}`} title={`Copy the ${what}`}>
      {isCopied ? "✓ copied" : "Copy"}
    </button>
  );
}

/** The clipboard is only given to pages over TLS and on loopback; elsewhere a selection is copied. */
async function copyText(text: string): Promise<void> {
  if (window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Words for a shell: quoted where a shell would read more than the word. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

export function commandLine(...words: readonly (string | null | undefined | false)[]): string {
  return ["holdfast", ...words.filter((word): word is string => typeof word === "string" && word !== "").map(quoted)].join(" ");
}

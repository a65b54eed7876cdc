/** What an attempt has printed: control characters of terminals are left out, the rest is text. */

import { useEffect, useMemo, useRef } from "react";

import { Copy } from "./command";

const CONTROL = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-_]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

export function plainText(log: string): string {
  return log.replace(/\r\n/g, "\n").replace(/[^\n]*\r(?!\n)/g, "").replace(CONTROL, "");
}

export function Log({ text, isLive = false }: { readonly text: string; readonly isLive?: boolean }) {
  const box = useRef<HTMLPreElement>(null);
  const shown = useMemo(() => plainText(text), [text]);
  useEffect(() => {
    if (isLive && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, isLive]);
  return (
    <div className="log">
      <pre ref={box} tabIndex={0} aria-label="Printed output">
        {shown}
      </pre>
      <Copy text={shown} what="output" />
    </div>
  );
}

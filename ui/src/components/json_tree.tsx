/** Any JSON value as a tree. Large parts open page by page; text is text, whatever it looks like. */

import { useState } from "react";

import { count } from "../words/numbers";

const PAGE = 100;
const LONG_TEXT = 2_000;
const OPEN_LEVELS = 2;

export function JsonTree({ value, name }: { readonly value: unknown; readonly name?: string }) {
  return (
    <div className="json">
      <Part value={value} name={name} level={0} />
    </div>
  );
}

function Part({ value, name, level }: { readonly value: unknown; readonly name?: string | undefined; readonly level: number }) {
  if (typeof value === "object" && value !== null) return <Branch value={value} name={name} level={level} />;
  return (
    <div className="json-line">
      {name === undefined ? null : <span className="json-key">{name}: </span>}
      <Leaf value={value} />
    </div>
  );
}

function Branch({ value, name, level }: { readonly value: object; readonly name?: string | undefined; readonly level: number }) {
  const isList = Array.isArray(value);
  const size = isList ? value.length : Object.keys(value).length;
  const [isOpen, setOpen] = useState(level < OPEN_LEVELS && size <= PAGE);
  const [shown, setShown] = useState(PAGE);
  const words = isList ? `[${count(size)}]` : `{${count(size)}}`;
  if (size === 0) {
    return (
      <div className="json-line">
        {name === undefined ? null : <span className="json-key">{name}: </span>}
        <span className="quiet">{isList ? "[]" : "{}"}</span>
      </div>
    );
  }
  const entries: readonly (readonly [string, unknown])[] = !isOpen
    ? []
    : isList
      ? value.slice(0, shown).map((one: unknown, index) => [String(index), one] as const)
      : Object.entries(value).slice(0, shown);
  return (
    <div>
      <button type="button" className="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
        {name === undefined ? null : <span className="json-key">{name}</span>} <span className="quiet">{words}</span>
      </button>
      {isOpen ? (
        <div className="json-children">
          {entries.map(([key, one]) => (
            <Part key={key} value={one} name={key} level={level + 1} />
          ))}
          {shown < size ? (
            <button type="button" className="plain" onClick={() => setShown(shown + PAGE)}>
              Show {count(Math.min(PAGE, size - shown))} more of {count(size - shown)}
            </button>
          ) : null}
        </div>
      ) : null}
    </div>
  );
}

function Leaf({ value }: { readonly value: unknown }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value !== "string") return <span className={`json-${typeof value}`}>{String(value)}</span>;
  if (value.length <= LONG_TEXT || isWhole) return <span className="json-string">{JSON.stringify(value)}</span>;
  return (
    <span className="json-string">
      {JSON.stringify(value.slice(0, LONG_TEXT))}…{" "}
      <button type="button" className="plain" onClick={() => setWhole(true)}>
        Show all {count(value.length)} characters
      </button>
    </span>
  );
}

/** The text of a workflow: checked while one types, with the line of each mistake; registered when it is right. */

import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { client, ROOT, type Schemas } from "../../api/client";
import { sent, useChange } from "../../api/hooks";
import { Command } from "../../components/command";
import { Failed } from "../../components/states";

const PAUSE_MS = 400;
type Mistake = Readonly<Record<string, unknown>>;

export function Editor({ text: first, onRegistered }: { readonly text: string; readonly onRegistered: (workflowId: string) => void }) {
  const [text, setText] = useState(first);
  const settled = useSettled(text);
  const field = useRef<HTMLTextAreaElement>(null);
  const validation = useQuery({
    queryKey: ["validate", settled],
    queryFn: () => post<Schemas["Validation"]>("/api/v1/workflows/validate", settled),
    enabled: settled.trim() !== "",
    gcTime: 0,
    retry: false,
  });
  const register = useChange(() => post<Schemas["Registration"]>("/api/v1/workflows", text));
  const found = validation.data;
  const isFresh = settled === text && !validation.isFetching;
  return (
    <section className="panel" aria-labelledby="editor">
      <h2 id="editor">Workflow file</h2>
      <textarea
        ref={field}
        rows={Math.min(36, Math.max(12, text.split("\n").length + 2))}
        value={text}
        spellCheck={false}
        aria-label="The workflow, as YAML or JSON"
        aria-describedby="mistakes"
        onChange={(event) => setText(event.target.value)}
      />
      <div id="mistakes" role="status" className="mistakes">
        {validation.error ? <Failed error={validation.error} /> : null}
        {found?.valid ? (
          <p>
            ✓ {found.workflow_id} is valid: {found.node_count} nodes.
          </p>
        ) : null}
        <Mistakes title="Mistakes" mistakes={found?.errors ?? []} onOpen={(line) => goToLine(field.current, line)} />
        <Mistakes title="Warnings" mistakes={found?.warnings ?? []} onOpen={(line) => goToLine(field.current, line)} />
      </div>
      {register.error ? <Failed error={register.error} /> : null}
      <div className="dialog-foot">
        <span className="grow">
          <Command text="holdfast register workflow.yaml" />
        </span>
        <button
          type="button"
          className="button main-action"
          disabled={!found?.valid || !isFresh || register.isPending}
          onClick={() => register.mutate(undefined, { onSuccess: (made) => onRegistered(made.workflow_id) })}
        >
          Register
        </button>
      </div>
    </section>
  );
}

/** The body is the text itself, which the service keeps as it is. */
function post<T>(path: "/api/v1/workflows" | "/api/v1/workflows/validate", text: string): Promise<T> {
  return sent<T>(
    client.POST(path, {
      body: text as never,
      bodySerializer: (body: unknown) => body as string,
      headers: { "Content-Type": "application/yaml" },
      params: { query: { file: "workflow.yaml" } },
    }),
  );
}

function Mistakes({ title, mistakes, onOpen }: { readonly title: string; readonly mistakes: readonly Mistake[]; readonly onOpen: (line: number) => void }) {
  if (mistakes.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul>
        {mistakes.map((one, index) => (
          <li key={index}>
            {typeof one["line"] === "number" ? (
              <button type="button" className="plain" onClick={() => onOpen(one["line"] as number)}>
                Line {one["line"]}
              </button>
            ) : null}{" "}
            {String(one["message"] ?? "")} {one["suggestion"] ? <span className="quiet">{String(one["suggestion"])}</span> : null}
          </li>
        ))}
      </ul>
    </>
  );
}

function goToLine(field: HTMLTextAreaElement | null, line: number): void {
  if (field === null) return;
  const lines = field.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  field.focus();
  field.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  field.scrollTop = (field.scrollHeight / lines.length) * Math.max(0, line - 5);
}

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

export function drawingAddress(workflowId: string): string {
  return `${ROOT}/api/v1/workflows/${encodeURIComponent(workflowId)}/graph?format=svg`;
}

/** What the job follows: its inputs, its workflow as it was submitted, and how that differs from the current version. */

import { useState } from "react";
import { Link } from "wouter";

import { problemFrom } from "../../api/client";
import { useRead } from "../../api/hooks";
import { useAddressQuery } from "../../address";
import { Copy } from "../../components/command";
import { JsonTree } from "../../components/json_tree";
import { Shown } from "../../components/states";
import { diffOf } from "../../words/diff";
import type { Job } from "./job";

export function Definition({ job }: { readonly job: Job }) {
  const query = useAddressQuery();
  const generation = Number(query.get("generation")) || job.generation;
  const definition = useRead("/api/v1/jobs/{job_id}/definition", { path: { job_id: job.job_id }, query: { generation } });
  return (
    <div className="stack">
      {job.generation > 1 ? (
        <form className="filters" onSubmit={(event) => event.preventDefault()}>
          <label>
            Generation
            <select value={generation} onChange={(event) => query.set({ generation: event.target.value }, true)}>
              {Array.from({ length: job.generation }, (_, index) => index + 1).map((number) => (
                <option key={number}>{number}</option>
              ))}
            </select>
          </label>
        </form>
      ) : null}
      <Shown of={definition} rows={8}>
        {(found) => (
          <>
            {found.changes === null ? null : (
              <section className="panel" aria-labelledby="changes">
                <h2 id="changes">Corrected in this generation</h2>
                <ul>
                  {found.changes.inputs.map((change) => (
                    <li key={change.name}>
                      Input {change.name} ({change.change}): <code>{JSON.stringify(change.before)}</code> → <code>{JSON.stringify(change.after)}</code>
                    </li>
                  ))}
                </ul>
                <Lines lines={found.changes.lines} />
              </section>
            )}
            <section className="panel" aria-labelledby="inputs">
              <h2 id="inputs">Inputs</h2>
              <JsonTree value={found.inputs} />
            </section>
            <Source job={job} hash={found.definition_hash} version={found.version} />
            <section className="panel" aria-labelledby="normalised">
              <h2 id="normalised">With all defaults</h2>
              <JsonTree value={found.definition} />
            </section>
          </>
        )}
      </Shown>
    </div>
  );
}

function Source({ job, hash, version }: { readonly job: Job; readonly hash: string; readonly version: string }) {
  const [isDiff, setDiff] = useState(false);
  const path = { workflow_id: job.workflow_id };
  const source = useRead("/api/v1/workflows/{workflow_id}/source", { path, query: { definition_hash: hash } });
  const current = useRead("/api/v1/workflows/{workflow_id}/source", { path });
  const isCurrent = current.data?.definition_hash === hash;
  const isMissing = problemFrom(source.error).status === 404;
  return (
    <section className="panel" aria-labelledby="source">
      <h2 id="source">
        Workflow{" "}
        <Link href={`/workflows/${encodeURIComponent(job.workflow_id)}`}>
          {job.workflow_id} {version}
        </Link>
      </h2>
      <p className="quiet">
        {isCurrent ? "This is the current version." : "The job follows another version than the current one."}{" "}
        {!isCurrent && current.data !== undefined && source.data !== undefined ? (
          <button type="button" className="plain" onClick={() => setDiff(!isDiff)}>
            {isDiff ? "Show the text" : "Show what differs from the current one"}
          </button>
        ) : null}
      </p>
      {isMissing ? (
        <p className="quiet">The text of this version was not stored: it was corrected by hand, or came from a program.</p>
      ) : (
        <Shown of={source} rows={6}>
          {(found) =>
            isDiff && current.data !== undefined ? (
              <Lines lines={diffOf(found.content, current.data.content)} />
            ) : (
              <div className="log">
                <pre tabIndex={0} aria-label="The text as it was submitted">
                  {found.content}
                </pre>
                <Copy text={found.content} what="text" />
              </div>
            )
          }
        </Shown>
      )}
    </section>
  );
}

function Lines({ lines }: { readonly lines: readonly string[] }) {
  if (lines.length === 0) return null;
  return (
    <pre className="diff" tabIndex={0} aria-label="What differs">
      {lines.map((line, index) => (
        <span key={index} className={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}>
          {line}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

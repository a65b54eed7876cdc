/** One workflow: its drawing, its text, how its jobs go, its versions, and submitting it. */

import { Link, useLocation, useParams } from "wouter";

import { useRead, usePages } from "../../api/hooks";
import { useMay } from "../../api/session";
import { ListPage, listOf } from "../../components/list_page";
import { Shown } from "../../components/states";
import { StatusBadge } from "../../components/status";
import { Tabs } from "../../components/tabs";
import { When } from "../../components/time";
import { count, counted, duration, percent } from "../../words/numbers";
import { drawingAddress, Editor } from "./editor";
import { Submit } from "./submit";

const TABS = [
  { name: "overview", label: "Overview" },
  { name: "source", label: "File" },
  { name: "versions", label: "Versions" },
  { name: "submit", label: "Submit" },
] as const;

export function WorkflowPage() {
  const { workflow = "", "*": part = "" } = useParams<{ workflow: string; "*": string }>();
  const workflowId = decodeURIComponent(workflow);
  const maySubmit = useMay("submit");
  const details = useRead("/api/v1/workflows/{workflow_id}", { path: { workflow_id: workflowId } });
  return (
    <Shown of={details} rows={6}>
      {(found) => (
        <>
          <div className="head">
            <h1>{found.workflow_id}</h1>
            <span className="quiet">
              version {found.version}, registered <When at={found.registered_at} />
            </span>
            <span className="grow" />
            <Link className="button" href={`/jobs?workflow=${encodeURIComponent(workflowId)}`}>
              Its jobs
            </Link>
          </div>
          {found.name || found.description ? (
            <p>
              {found.name} {found.description}
            </p>
          ) : null}
          <Tabs
            tabs={TABS.filter((tab) => tab.name !== "submit" || maySubmit)}
            current={part === "" ? "overview" : part}
            base={`/workflows/${encodeURIComponent(workflowId)}`}
          />
          {part === "source" ? (
            <Source workflowId={workflowId} />
          ) : part === "versions" ? (
            <Versions workflowId={workflowId} />
          ) : part === "submit" ? (
            <Submit workflowId={workflowId} />
          ) : (
            <Overview workflowId={workflowId} />
          )}
        </>
      )}
    </Shown>
  );
}

function Overview({ workflowId }: { readonly workflowId: string }) {
  const path = { workflow_id: workflowId };
  const statistics = useRead("/api/v1/workflows/{workflow_id}/stats", { path });
  const schedules = useRead("/api/v1/schedules", {});
  const own = schedules.data?.items.filter((one) => one.workflow_id === workflowId) ?? [];
  return (
    <div className="stack">
      <section tabIndex={0} className="panel scroll-x" aria-labelledby="drawing">
        <h2 id="drawing">Nodes</h2>
        <img className="drawing" src={drawingAddress(workflowId)} alt={`The nodes of ${workflowId} and what waits for what`} />
      </section>
      <Shown of={statistics} rows={4}>
        {(found) => (
          <section tabIndex={0} className="panel scroll-x" aria-labelledby="went">
            <h2 id="went">How its last {counted(found.jobs, "job")} went</h2>
            <p className="row">
              {Object.entries(found.statuses)
                .filter(([, number]) => number > 0)
                .map(([status, number]) => (
                  <Link key={status} href={`/jobs?workflow=${encodeURIComponent(workflowId)}&status=${status}`}>
                    <StatusBadge status={status} note={count(number)} />
                  </Link>
                ))}
              {found.p50_seconds === null ? null : (
                <span className="quiet">
                  half of the completed ones took less than {duration(found.p50_seconds)}, 95 % less than {duration(found.p95_seconds ?? 0)}
                </span>
              )}
            </p>
            <table className="plain-table">
              <thead>
                <tr>
                  <th>node</th>
                  <th className="number">completed</th>
                  <th className="number">failed</th>
                  <th className="number">share that failed</th>
                  <th className="number">p50</th>
                  <th className="number">p95</th>
                </tr>
              </thead>
              <tbody>
                {found.nodes.map((node) => (
                  <tr key={node.node}>
                    <td>{node.node}</td>
                    <td className="number">{count(node.completed)}</td>
                    <td className="number">{count(node.failed)}</td>
                    <td className="number">{node.failure_share === null ? "–" : percent(node.failure_share)}</td>
                    <td className="number">{node.p50_seconds === null ? "–" : duration(node.p50_seconds)}</td>
                    <td className="number">{node.p95_seconds === null ? "–" : duration(node.p95_seconds)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
      </Shown>
      {own.length === 0 ? null : (
        <ListPage
          title="Schedules"
          level={2}
          found={listOf({ data: { items: own }, error: null })}
          idOf={(one) => one.name}
          empty={{ title: "" }}
          columns={[
            { title: "schedule", cell: (one) => <Link href="/schedules">{one.name}</Link> },
            { title: "when", cell: (one) => one.cron ?? `every ${duration(one.every_seconds ?? 0)}` },
            { title: "next run", cell: (one) => (one.paused === null ? <When at={one.next_runs[0]} /> : "paused") },
          ]}
        />
      )}
    </div>
  );
}

function Source({ workflowId }: { readonly workflowId: string }) {
  const source = useRead("/api/v1/workflows/{workflow_id}/source", { path: { workflow_id: workflowId } });
  const maySubmit = useMay("submit");
  const [, navigate] = useLocation();
  return (
    <Shown of={source} rows={8}>
      {(found) =>
        found.kind === "python" || !maySubmit ? (
          <div className="log">
            <pre tabIndex={0} aria-label="The text as it was submitted">
              {found.content}
            </pre>
          </div>
        ) : (
          <Editor key={found.definition_hash} text={found.content} onRegistered={(id) => navigate(`/workflows/${encodeURIComponent(id)}`)} />
        )
      }
    </Shown>
  );
}

function Versions({ workflowId }: { readonly workflowId: string }) {
  const versions = usePages("/api/v1/workflows/{workflow_id}/versions", { path: { workflow_id: workflowId } });
  return (
    <ListPage
      title="Versions"
      level={2}
      found={versions}
      idOf={(one) => one.definition_hash}
      empty={{ title: "There is none." }}
      columns={[
        { title: "version", cell: (one) => <strong>{one.version}</strong> },
        { title: "current", cell: (one) => (one.current ? "✓ a submission takes it" : "") },
        { title: "registered", cell: (one) => <When at={one.registered_at} /> },
        { title: "text", cell: (one) => [one.source, one.file].filter(Boolean).join(" from ") || "none was stored" },
        { title: "hash", cell: (one) => <code>{one.definition_hash.slice(0, 12)}</code> },
      ]}
    />
  );
}

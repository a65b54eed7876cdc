/** The workflows of the tenant, and a place to register one. */

import { useState } from "react";
import { Link, useLocation } from "wouter";

import { useRead } from "../../api/hooks";
import { useMay } from "../../api/session";
import { ListPage, listOf } from "../../components/list_page";
import { When } from "../../components/time";
import { count } from "../../words/numbers";
import { JOB_STATUSES } from "../../words/status";
import { Editor } from "./editor";

const STARTER = `workflow_id: hello
nodes:
  greet:
    handler: hello_world
    params: {name: World}
`;

export function Workflows() {
  const workflows = useRead("/api/v1/workflows", {}, { every: 10_000 });
  const maySubmit = useMay("submit");
  const [isEditing, setEditing] = useState(false);
  const [, navigate] = useLocation();
  return (
    <div className="stack">
      <ListPage
        title="Workflows"
        actions={
          maySubmit ? (
            <button type="button" className="button main-action" onClick={() => setEditing(!isEditing)}>
              {isEditing ? "Close the editor" : "Register a workflow …"}
            </button>
          ) : null
        }
        found={listOf(workflows)}
        idOf={(one) => one.workflow_id}
        empty={{ title: "No workflow is registered.", text: "Register one here, or from a shell:", command: "holdfast register workflow.yaml" }}
        columns={[
          { title: "workflow", cell: (one) => <Link href={`/workflows/${encodeURIComponent(one.workflow_id)}`}>{one.workflow_id}</Link> },
          { title: "version", cell: (one) => one.version },
          { title: "registered", cell: (one) => <When at={one.registered_at} /> },
          ...JOB_STATUSES.map((status) => ({
            title: status,
            isNumber: true,
            cell: (one: { readonly workflow_id: string; readonly jobs: Readonly<Record<string, number>> }) => {
              const number = one.jobs[status] ?? 0;
              const query = new URLSearchParams({ workflow: one.workflow_id, status });
              return number === 0 ? <span className="quiet">0</span> : <Link href={`/jobs?${query.toString()}`}>{count(number)}</Link>;
            },
          })),
          {
            title: "",
            cell: (one) =>
              maySubmit ? (
                <Link className="button" href={`/workflows/${encodeURIComponent(one.workflow_id)}/submit`}>
                  Submit …
                </Link>
              ) : null,
          },
        ]}
      />
      {isEditing ? <Editor text={STARTER} onRegistered={(id) => navigate(`/workflows/${encodeURIComponent(id)}`)} /> : null}
    </div>
  );
}

/** What the janitor found and repaired. */

import { Link } from "wouter";

import { client, type Schemas } from "../../api/client";
import { sent, usePages, useRead } from "../../api/hooks";
import { isInstallationAdmin, useSession } from "../../api/session";
import { ChangeButton } from "../../components/change_dialog";
import { ListPage } from "../../components/list_page";
import { Shown } from "../../components/states";
import { When } from "../../components/time";
import { count, counted } from "../../words/numbers";
import { nodeAddress, placeWords } from "../job/banner";

const TONES: Readonly<Record<string, string>> = { error: "failed", warning: "partial", info: "running" };

export function Janitor() {
  const log = useRead("/api/v1/janitor", { query: { limit: 1 } }, { every: 10_000 });
  const actions = usePages("/api/v1/janitor/actions", {});
  const isInstallation = isInstallationAdmin(useSession());
  return (
    <div className="stack">
      <div className="head">
        <h1>Janitor</h1>
        <span className="grow" />
        {isInstallation ? (
          <>
            <RunNow isDry />
            <RunNow isDry={false} />
          </>
        ) : null}
      </div>
      <Shown of={log} rows={2}>
        {(found) => (
          <>
            <p className="quiet">
              {found.leader === null ? (
                "No process looks after the jobs now. Start an orchestrator."
              ) : (
                <>
                  {found.leader.holder} looks after all jobs, since <When at={found.leader.since} />.
                </>
              )}
            </p>
            <Alerts alerts={found.alerts} />
          </>
        )}
      </Shown>
      <ListPage
        title="What it did"
        level={2}
        found={actions}
        idOf={(action) => `${action.run} ${action.at} ${action.duty} ${action.job_id ?? ""} ${action.node ?? ""} ${action.index ?? ""}`}
        empty={{ title: "It had nothing to repair." }}
        columns={[
          { title: "when", cell: (one) => <When at={one.at} /> },
          { title: "what", cell: (one) => one.action },
          { title: "duty", cell: (one) => one.duty.replaceAll("_", " ") },
          { title: "job", cell: (one) => <Place {...one} /> },
          { title: "why", cell: (one) => one.reason },
        ]}
      />
    </div>
  );
}

function Place({ job_id, node, index }: { readonly job_id: string | null; readonly node: string | null; readonly index: number | null }) {
  if (job_id === null) return null;
  return node === null ? (
    <Link href={`/jobs/${job_id}`}>…{job_id.slice(-8)}</Link>
  ) : (
    <Link href={nodeAddress({ job_id }, node, index)}>
      …{job_id.slice(-8)} {placeWords(node, index)}
    </Link>
  );
}

function Alerts({ alerts }: { readonly alerts: readonly Schemas["Alert"][] }) {
  return alerts.map((alert, index) => (
    <div key={index} className={`banner tone-${TONES[alert.severity] ?? "waiting"}`}>
      <p>
        <strong>{alert.kind.replaceAll("_", " ")}</strong>
        {alert.count > 1 ? ` × ${count(alert.count)}` : ""} since <When at={alert.since} /> <Place job_id={alert.job_id} node={alert.node} index={null} />
      </p>
    </div>
  ));
}

function RunNow({ isDry }: { readonly isDry: boolean }) {
  return (
    <ChangeButton
      label={isDry ? "Look only …" : "Repair now …"}
      title={isDry ? "Look at all jobs, and change nothing" : "Look at all jobs, and repair what is wrong"}
      command={() => `holdfast janitor --once${isDry ? " --dry-run" : ""}`}
      send={() => sent<Schemas["JanitorPass"]>(client.POST("/api/v1/janitor/run", { body: { dry_run: isDry } }))}
      result={(answer) => {
        const { findings } = answer as Schemas["JanitorPass"];
        return findings.length === 0 ? (
          <p>Nothing is wrong.</p>
        ) : (
          <>
            <p>{counted(findings.length, "finding")}:</p>
            <ul>
              {findings.map((one, index) => (
                <li key={index}>
                  {one.action}: {one.reason} <Place {...one} />
                </li>
              ))}
            </ul>
          </>
        );
      }}
    />
  );
}

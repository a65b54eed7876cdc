/** Whether the installation does its work, and what it consists of. */

import { client, ROOT } from "../../api/client";
import { useRead } from "../../api/hooks";
import { isInstallationAdmin, useSession } from "../../api/session";
import { useQuery } from "@tanstack/react-query";
import { ListPage, listOf } from "../../components/list_page";
import { Shown } from "../../components/states";
import { When } from "../../components/time";
import { bytes, count } from "../../words/numbers";
import type { Schemas } from "../../api/client";

export function Installation() {
  const isInstallation = isInstallationAdmin(useSession());
  return (
    <div className="stack">
      <h1>Installation</h1>
      <Health />
      {isInstallation ? <Schema /> : null}
      <Defaults />
      {isInstallation ? <Settings /> : null}
      {isInstallation ? <Tables /> : null}
    </div>
  );
}

function Health() {
  const health = useQuery({
    queryKey: ["/health"],
    queryFn: async () => (await client.GET("/health" as never, {} as never)).data as unknown as Schemas["InstallationHealth"],
    refetchInterval: 5_000,
  });
  return (
    <section className="panel" aria-labelledby="health">
      <h2 id="health">Health</h2>
      <Shown of={health}>
        {(found) => (
          <>
            <p>
              <span className={`badge tone-${found.status === "ok" ? "completed" : "partial"}`}>
                <span aria-hidden="true">{found.status === "ok" ? "✓" : "!"}</span> {found.status}
              </span>
            </p>
            {found.reasons.map((reason) => (
              <p key={reason}>{reason}</p>
            ))}
            <dl className="facts">
              <dt>Version</dt>
              <dd>
                {found.version} · <a href={`${ROOT}/openapi.json`}>OpenAPI document</a>
              </dd>
              <dt>Database</dt>
              <dd>
                {found.database}, migration {found.schema}
              </dd>
              <dt>Orchestrators, workers</dt>
              <dd>
                {count(found.orchestrators)}, {count(found.workers)}
              </dd>
              <dt>Tasks</dt>
              <dd>
                {count(found.running)} running, {count(found.queued)} waiting, {count(found.held)} held; the oldest waits <When at={found.oldest_waiting} />
              </dd>
              <dt>Janitor</dt>
              <dd>
                {found.janitor?.holder ?? "no process"}, last pass <When at={found.janitor_passed_at} />
              </dd>
            </dl>
          </>
        )}
      </Shown>
    </section>
  );
}

function Schema() {
  const schema = useRead("/api/v1/bootstrap/status", {});
  return (
    <section className="panel" aria-labelledby="schema">
      <h2 id="schema">Migrations</h2>
      <Shown of={schema}>
        {(found) => (
          <p>
            {count(found.applied.length)} applied.{" "}
            {found.missing.length > 0 ? `Missing: ${found.missing.join(", ")}. Run: holdfast migrate` : found.is_current ? "The schema is up to date." : ""}
            {found.unknown.length > 0 ? ` A newer version has applied ${found.unknown.join(", ")}.` : ""}
          </p>
        )}
      </Shown>
    </section>
  );
}

function Defaults() {
  const defaults = useRead("/api/v1/defaults", {});
  const found = { data: defaults.data === undefined ? undefined : { items: defaults.data.defaults }, error: defaults.error };
  return (
    <ListPage
      title="What holds for workflows that say nothing"
      level={2}
      found={listOf(found)}
      idOf={(one) => one.name}
      empty={{ title: "There are no defaults." }}
      columns={[
        { title: "default", cell: (one) => <code>{one.name}</code> },
        { title: "value", cell: (one) => JSON.stringify(one.value) },
        { title: "built in", cell: (one) => JSON.stringify(one.built_in) },
        {
          title: "set by",
          cell: (one) =>
            one.source === "set" ? (
              <>
                {one.actor}, <When at={one.set_at} />
                {one.reason ? `: ${one.reason}` : ""}
              </>
            ) : (
              ""
            ),
        },
      ]}
    />
  );
}

function Settings() {
  const settings = useRead("/api/v1/bootstrap/settings", {});
  return (
    <ListPage
      title="Settings of the process that answers"
      level={2}
      found={listOf(settings)}
      idOf={(one) => one.name}
      empty={{ title: "There are no settings." }}
      columns={[
        { title: "setting", cell: (one) => <code>{one.name}</code> },
        { title: "value", cell: (one) => one.value ?? "" },
        { title: "from", cell: (one) => (one.is_default ? "default" : "a flag, a variable or the project file") },
      ]}
    />
  );
}

function Tables() {
  const tables = useRead("/api/v1/bootstrap/tables", {});
  return (
    <ListPage
      title="Tables"
      level={2}
      found={listOf(tables)}
      idOf={(one) => one.table}
      empty={{ title: "There is no schema.", command: "holdfast migrate" }}
      columns={[
        { title: "table", cell: (one) => <code>{one.table}</code> },
        { title: "rows", isNumber: true, cell: (one) => count(one.rows) },
        { title: "size with indexes", isNumber: true, cell: (one) => bytes(one.bytes) },
      ]}
    />
  );
}

/** Who may use the service: keys and tenants. */

import { useState } from "react";

import { client, type Schemas } from "../../api/client";
import { sent, useRead } from "../../api/hooks";
import { isInstallationAdmin, useSession } from "../../api/session";
import { ChangeButton } from "../../components/change_dialog";
import { commandLine } from "../../components/command";
import { ListPage, listOf } from "../../components/list_page";
import { Secret } from "../../components/secret";
import { When } from "../../components/time";

const ROLES = ["viewer", "submitter", "operator", "worker", "admin"];

export function Keys() {
  const session = useSession();
  return (
    <div className="stack">
      <h1>Keys and tenants</h1>
      <KeyList />
      {isInstallationAdmin(session) ? <Tenants /> : null}
    </div>
  );
}

function KeyList() {
  const keys = useRead("/api/v1/keys", {});
  return (
    <ListPage
      title="Keys"
      level={2}
      actions={<MakeKey />}
      found={listOf(keys)}
      idOf={(key) => key.prefix}
      empty={{ title: "There is no key.", command: "holdfast keys add NAME --role operator" }}
      columns={[
        { title: "name", cell: (one) => <strong>{one.name}</strong> },
        { title: "begins with", cell: (one) => <code>{one.prefix}</code> },
        { title: "tenant", cell: (one) => (one.tenant === "*" ? "the installation" : one.tenant) },
        { title: "roles", cell: (one) => one.roles.join(", ") },
        { title: "made", cell: (one) => <>{one.created_by}, <When at={one.created_at} /></> },
        { title: "last used", cell: (one) => <When at={one.last_used_at} /> },
        {
          title: "valid",
          cell: (one) =>
            one.revoked_at !== null ? (
              <>
                revoked by {one.revoked_by}, <When at={one.revoked_at} />
              </>
            ) : one.expires_at === null ? (
              "until it is revoked"
            ) : (
              <When at={one.expires_at} />
            ),
        },
        {
          title: "",
          cell: (one) =>
            one.valid ? (
              <ChangeButton
                label="Revoke …"
                title={`Revoke the key ${one.name}`}
                kind="danger"
                command={() => commandLine("keys", "revoke", one.prefix)}
                send={() => sent(client.DELETE("/api/v1/keys/{prefix}", { params: { path: { prefix: one.prefix } } }))}
              >
                <p>It ends everywhere within five seconds, and cannot be used again.</p>
              </ChangeButton>
            ) : null,
        },
      ]}
    />
  );
}

function MakeKey() {
  const isInstallation = isInstallationAdmin(useSession());
  const [name, setName] = useState("");
  const [roles, setRoles] = useState<readonly string[]>(["viewer"]);
  const [tenant, setTenant] = useState("");
  const [until, setUntil] = useState("");
  const body = {
    name: name.trim(),
    roles: [...roles],
    ...(tenant.trim() === "" ? {} : { tenant: tenant.trim() }),
    ...(until === "" ? {} : { expires_at: new Date(until).toISOString() }),
  };
  return (
    <ChangeButton
      label="Make a key …"
      title="Make a key"
      kind="main-action"
      isReady={body.name !== "" && roles.length > 0}
      command={() =>
        commandLine("keys", "add", body.name || "NAME", ...roles.flatMap((role) => ["--role", role]), ...(tenant.trim() ? ["--tenant", tenant.trim()] : []))
      }
      send={() => sent<Schemas["NewKey"]>(client.POST("/api/v1/keys", { body }))}
      result={(answer) => <Secret value={(answer as Schemas["NewKey"]).key} what="key" />}
    >
      <label className="field">
        <span>Name</span>
        <input value={name} onChange={(event) => setName(event.target.value)} placeholder="whom or what it is for" required />
      </label>
      <fieldset className="choices">
        <legend>Roles</legend>
        {ROLES.map((role) => (
          <label key={role}>
            <input
              type="checkbox"
              checked={roles.includes(role)}
              onChange={(event) => setRoles(event.target.checked ? [...roles, role] : roles.filter((one) => one !== role))}
            />{" "}
            {role}
          </label>
        ))}
      </fieldset>
      {isInstallation ? (
        <label className="field">
          <span>Tenant</span>
          <input value={tenant} onChange={(event) => setTenant(event.target.value)} placeholder="yours, or * for the installation" />
        </label>
      ) : null}
      <label className="field">
        <span>Valid until</span>
        <input type="datetime-local" value={until} onChange={(event) => setUntil(event.target.value)} />
      </label>
    </ChangeButton>
  );
}

function Tenants() {
  const tenants = useRead("/api/v1/tenants", {});
  return (
    <ListPage
      title="Tenants"
      level={2}
      actions={<MakeTenant />}
      found={listOf(tenants)}
      idOf={(one) => one.name}
      empty={{ title: "There is only the default tenant.", command: "holdfast tenants add NAME" }}
      columns={[
        { title: "tenant", cell: (one) => <strong>{one.name}</strong> },
        { title: "queues", cell: (one) => one.queues?.join(", ") ?? "every queue" },
        { title: "made", cell: (one) => <>{one.created_by}, <When at={one.created_at} /></> },
      ]}
    />
  );
}

function MakeTenant() {
  const [name, setName] = useState("");
  const [queues, setQueues] = useState("");
  const bound = queues.split(/[\s,]+/).filter((queue) => queue !== "");
  return (
    <ChangeButton
      label="Make a tenant …"
      title="Make a tenant"
      isReady={name.trim() !== ""}
      command={() => commandLine("tenants", "add", name.trim() || "NAME", ...bound.flatMap((queue) => ["--queue", queue]))}
      send={() => sent(client.POST("/api/v1/tenants", { body: { name: name.trim(), queues: bound.length === 0 ? null : bound } }))}
    >
      <label className="field">
        <span>Name</span>
        <input value={name} onChange={(event) => setName(event.target.value)} required />
      </label>
      <label className="field">
        <span>Queues</span>
        <input value={queues} onChange={(event) => setQueues(event.target.value)} placeholder="every queue" />
      </label>
    </ChangeButton>
  );
}

/** Where events are sent by HTTP. */

import { useState } from "react";

import { client, type Schemas } from "../../api/client";
import { sent, useRead } from "../../api/hooks";
import { useMay } from "../../api/session";
import { ChangeButton } from "../../components/change_dialog";
import { commandLine } from "../../components/command";
import { ListPage, listOf } from "../../components/list_page";
import { Secret } from "../../components/secret";
import { When } from "../../components/time";

type Webhook = Schemas["Webhook"];
const EVENTS = [
  "job_completed",
  "job_partial",
  "job_failed",
  "job_cancelled",
  "job_stuck",
  "node_failed",
  "task_exhausted",
  "breaker_opened",
  "breaker_closed",
  "janitor_alert",
];

export function Webhooks() {
  const webhooks = useRead("/api/v1/webhooks", {}, { every: 10_000 });
  const mayOperate = useMay("operate");
  return (
    <ListPage
      title="Webhooks"
      actions={mayOperate ? <KeepWebhook /> : null}
      found={listOf(webhooks)}
      idOf={(one) => one.name}
      empty={{ title: "There is no webhook.", text: "A webhook gets events as signed requests.", command: "holdfast webhooks add NAME URL --event job_failed" }}
      columns={[
        { title: "webhook", cell: (one) => <strong>{one.name}</strong> },
        { title: "address", cell: (one) => <span className="mono">{one.url}</span> },
        { title: "events of all jobs", cell: (one) => one.events.map((event) => event.replaceAll("_", " ")).join(", ") || "none: only what workflows send" },
        { title: "state", cell: stateOf },
        { title: "made", cell: (one) => <>{one.created_by}, <When at={one.created_at} /></> },
        { title: "", cell: (one) => (mayOperate ? <Actions webhook={one} /> : null) },
      ]}
    />
  );
}

function stateOf(webhook: Webhook) {
  if (!webhook.enabled) {
    return (
      <span className="held">
        disabled <When at={webhook.disabled_at} />: {webhook.disabled_reason}
      </span>
    );
  }
  if (webhook.failing_since === null) return "works";
  return (
    <span className="held">
      fails since <When at={webhook.failing_since} />
    </span>
  );
}

function Actions({ webhook }: { readonly webhook: Webhook }) {
  const params = { path: { name: webhook.name } };
  return (
    <span className="row">
      <ChangeButton
        label="Test …"
        title={`Send a test to ${webhook.name}`}
        command={() => commandLine("notify", "test", "--webhook", webhook.name)}
        send={() => sent<Schemas["Delivery"]>(client.POST("/api/v1/webhooks/{name}/test", { params: { ...params, query: { wait: 15 } } }))}
        result={(answer) => {
          const delivery = answer as Schemas["Delivery"];
          return (
            <p role="status">
              {delivery.status === "sent" ? `It answered ${delivery.answer ?? ""}.` : `Not sent yet: ${delivery.error ?? "it is on its way."}`}
            </p>
          );
        }}
      />
      <KeepWebhook webhook={webhook} />
      {webhook.enabled ? null : (
        <ChangeButton
          label="Enable …"
          title={`Send to ${webhook.name} again`}
          command={() => commandLine("webhooks", "enable", webhook.name)}
          send={() => sent(client.POST("/api/v1/webhooks/{name}/enable", { params }))}
        />
      )}
      <ChangeButton
        label="New secret …"
        title={`Make another secret for ${webhook.name}`}
        command={() => commandLine("webhooks", "rotate", webhook.name)}
        send={() => sent<Schemas["NewSecret"]>(client.POST("/api/v1/webhooks/{name}/rotate", { params }))}
        result={(answer) => {
          const made = answer as Schemas["NewSecret"];
          return (
            <>
              <Secret value={made.secret} what="secret" />
              {made.former_secret_until === null ? null : (
                <p>
                  The former one signs, too, until <When at={made.former_secret_until} />.
                </p>
              )}
            </>
          );
        }}
      >
        <p>Both secrets sign for a while, so that the receiver can change without losing anything.</p>
      </ChangeButton>
      <ChangeButton
        label="Remove …"
        title={`Remove ${webhook.name}`}
        kind="danger"
        command={() => commandLine("webhooks", "remove", webhook.name)}
        send={() => sent(client.DELETE("/api/v1/webhooks/{name}", { params }))}
      >
        <p>What waits to be sent to it is not sent any more.</p>
      </ChangeButton>
    </span>
  );
}

function KeepWebhook({ webhook }: { readonly webhook?: Webhook }) {
  const [name, setName] = useState(webhook?.name ?? "");
  const [url, setUrl] = useState(webhook?.url ?? "https://");
  const [events, setEvents] = useState<readonly string[]>(webhook?.events ?? ["job_failed", "job_partial"]);
  const wanted = name.trim();
  return (
    <ChangeButton
      label={webhook === undefined ? "Add a webhook …" : "Change …"}
      title={webhook === undefined ? "Add a webhook" : `Change ${webhook.name}`}
      kind={webhook === undefined ? "main-action" : undefined}
      isReady={wanted !== "" && URL.canParse(url)}
      command={() => commandLine("webhooks", "add", wanted || "NAME", url, ...events.flatMap((event) => ["--event", event]))}
      send={() => sent<Schemas["KeptWebhook"]>(client.PUT("/api/v1/webhooks/{name}", { params: { path: { name: wanted } }, body: { url, events: [...events] } }))}
      result={(answer) => {
        const kept = answer as Schemas["KeptWebhook"];
        return kept.secret === null ? <p role="status">Changed. It is in force within five seconds.</p> : <Secret value={kept.secret} what="secret" />;
      }}
    >
      {webhook === undefined ? (
        <label className="field">
          <span>Name</span>
          <input value={name} onChange={(event) => setName(event.target.value)} required />
        </label>
      ) : null}
      <label className="field">
        <span>Address</span>
        <input type="url" value={url} onChange={(event) => setUrl(event.target.value)} required />
      </label>
      <fieldset className="choices">
        <legend>Events of all jobs</legend>
        {EVENTS.map((event) => (
          <label key={event}>
            <input
              type="checkbox"
              checked={events.includes(event)}
              onChange={(change) => setEvents(change.target.checked ? [...events, event] : events.filter((one) => one !== event))}
            />{" "}
            {event.replaceAll("_", " ")}
          </label>
        ))}
      </fieldset>
    </ChangeButton>
  );
}

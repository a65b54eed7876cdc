/** What was sent to whom, and what could not be sent. */

import { Link } from "wouter";

import { client } from "../../api/client";
import { sent, usePages } from "../../api/hooks";
import { useMay } from "../../api/session";
import { useAddressQuery } from "../../address";
import { ChangeButton } from "../../components/change_dialog";
import { commandLine } from "../../components/command";
import { ListPage } from "../../components/list_page";
import { When } from "../../components/time";

const STATUSES: readonly (readonly [string, string, string])[] = [
  ["gathering", "waiting", "○"],
  ["waiting", "running", "◔"],
  ["sent", "completed", "✓"],
  ["dead", "failed", "✗"],
];

export function Deliveries() {
  const query = useAddressQuery();
  const wanted = query.get("status");
  const mayOperate = useMay("operate");
  const deliveries = usePages("/api/v1/deliveries", { query: wanted === "" ? {} : { status: wanted } } as never, { every: 5_000 });
  return (
    <ListPage
      title="Deliveries"
      found={deliveries}
      idOf={(one) => one.id}
      filters={
        <form className="filters" onSubmit={(event) => event.preventDefault()}>
          <fieldset className="chips" aria-label="Status">
            {STATUSES.map(([status]) => (
              <button
                key={status}
                type="button"
                className="chip"
                aria-pressed={wanted === status}
                onClick={() => query.set({ status: wanted === status ? "" : status }, true)}
              >
                {status}
              </button>
            ))}
          </fieldset>
        </form>
      }
      empty={{
        title: wanted === "" ? "Nothing was sent yet." : "No delivery is like this.",
        text: "A workflow names its receivers with `notify`; a webhook can ask for the events of all jobs.",
        command: "holdfast webhooks add NAME URL --event job_failed",
      }}
      columns={[
        { title: "when", cell: (one) => <When at={one.created_at} /> },
        {
          title: "status",
          cell: (one) => {
            const [, tone = "waiting", sign = "·"] = STATUSES.find(([status]) => status === one.status) ?? [];
            return (
              <span className={`badge tone-${tone}`}>
                <span aria-hidden="true">{sign}</span> {one.status}
              </span>
            );
          },
        },
        { title: "event", cell: (one) => one.event?.replaceAll("_", " ") ?? "test" },
        { title: "receiver", cell: (one) => `${one.kind} ${one.receiver}` },
        { title: "job", cell: (one) => (one.job_id === null ? "" : <Link href={`/jobs/${one.job_id}`}>{one.workflow_id ?? ""} …{one.job_id.slice(-8)}</Link>) },
        { title: "tries", isNumber: true, cell: (one) => one.tries },
        { title: "next try", cell: (one) => (one.status === "waiting" ? <When at={one.next_at} /> : "") },
        { title: "why", cell: (one) => [one.answer === null ? null : `answered ${one.answer}`, one.error].filter(Boolean).join(": ") },
        {
          title: "",
          cell: (one) =>
            one.status === "dead" && mayOperate ? (
              <ChangeButton
                label="Send again …"
                title="Send it again"
                command={() => commandLine("deliveries", "redrive", one.id)}
                send={() => sent(client.POST("/api/v1/deliveries/{delivery_id}/redrive", { params: { path: { delivery_id: one.id } } }))}
              >
                <p>
                  The event {one.event} goes to {one.receiver} once more, under the same id.
                </p>
              </ChangeButton>
            ) : null,
        },
      ]}
    />
  );
}

/** Who changed what. */

import { Link } from "wouter";

import { usePages } from "../../api/hooks";
import { useAddressQuery } from "../../address";
import { ListPage } from "../../components/list_page";
import { JsonTree } from "../../components/json_tree";
import { When } from "../../components/time";

const FILTERS: readonly (readonly [string, string, string])[] = [
  ["actor", "Who", "a name, or the beginning of a key"],
  ["action", "What", "job.resume, or job"],
  ["instance", "To what", "the id of a job, the name of a limit"],
];
const IS_JOB = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

export function Audit() {
  const query = useAddressQuery();
  const wanted = Object.fromEntries(FILTERS.map(([name]) => [name, query.get(name) || undefined]));
  const lines = usePages("/api/v1/audit", { query: wanted });
  return (
    <ListPage
      title="Audit"
      found={lines}
      idOf={(line) => String(line.id)}
      filters={
        <form className="filters" key={query.text} onSubmit={(event) => event.preventDefault()}>
          {FILTERS.map(([name, label, example]) => (
            <label key={name}>
              {label}
              <input
                defaultValue={query.get(name)}
                placeholder={example}
                size={24}
                onKeyDown={(event) => {
                  if (event.key === "Enter") query.set({ [name]: event.currentTarget.value.trim() }, true);
                }}
                onBlur={(event) => {
                  if (event.target.value !== query.get(name)) query.set({ [name]: event.target.value.trim() }, true);
                }}
              />
            </label>
          ))}
        </form>
      }
      empty={{ title: query.text === "" ? "There are no changes yet." : "No change is like this." }}
      columns={[
        { title: "when", cell: (line) => <When at={line.at} /> },
        { title: "who", cell: (line) => <span title={[line.key, line.address].filter(Boolean).join(" from ")}>{line.actor}</span> },
        { title: "what", cell: (line) => line.action },
        {
          title: "to what",
          cell: (line) =>
            line.instance !== null && IS_JOB.test(line.instance) ? <Link href={`/jobs/${line.instance}`}>…{line.instance.slice(-8)}</Link> : line.instance,
        },
        { title: "why", cell: (line) => line.reason ?? "" },
        {
          title: "before and after",
          cell: (line) =>
            line.before === null && line.after === null ? null : (
              <details>
                <summary>show</summary>
                {line.before === null ? null : <JsonTree name="before" value={line.before} />}
                {line.after === null ? null : <JsonTree name="after" value={line.after} />}
              </details>
            ),
        },
        { title: "from", cell: (line) => <span title={line.request_id ?? ""}>{line.address ?? "a shell or a program"}</span> },
      ]}
    />
  );
}

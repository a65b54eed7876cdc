/** A page with one list: its title, what one can do, and its rows or why there are none. */

import type { ReactNode } from "react";

import { Empty, Failed, Loading } from "./states";

interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ReactNode;
  readonly isNumber?: boolean;
}

interface Found<Row> {
  readonly items: readonly Row[];
  readonly isLoading: boolean;
  readonly error: unknown;
  readonly hasMore?: boolean;
  readonly more?: () => void;
}

interface Props<Row> {
  readonly title: string;
  readonly level?: 1 | 2;
  readonly actions?: ReactNode;
  readonly filters?: ReactNode;
  readonly found: Found<Row>;
  readonly columns: readonly Column<Row>[];
  readonly idOf: (row: Row) => string;
  readonly empty: { readonly title: string; readonly text?: string; readonly command?: string };
}

export function ListPage<Row>({ title, level = 1, actions, filters, found, columns, idOf, empty }: Props<Row>) {
  const Heading = level === 1 ? "h1" : "h2";
  return (
    <section>
      <div className="head">
        <Heading>{title}</Heading>
        <span className="grow" />
        {actions}
      </div>
      {filters}
      {found.error && found.items.length === 0 ? (
        <Failed error={found.error} />
      ) : found.isLoading ? (
        <Loading rows={5} />
      ) : found.items.length === 0 ? (
        <div className="panel">
          <Empty title={empty.title} command={empty.command}>
            {empty.text}
          </Empty>
        </div>
      ) : (
        <div tabIndex={0} className="panel scroll-x">
          <table className="plain-table">
            <thead>
              <tr>
                {columns.map((column) => (
                  <th key={column.title} className={column.isNumber ? "number" : ""}>
                    {column.title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {found.items.map((row) => (
                <tr key={idOf(row)}>
                  {columns.map((column) => (
                    <td key={column.title} className={column.isNumber ? "number" : ""}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
          {found.hasMore ? (
            <button type="button" className="button" onClick={found.more}>
              Show more
            </button>
          ) : null}
        </div>
      )}
    </section>
  );
}

/** A short list as a page's list. */
export function listOf<Row>(answer: { readonly data: { readonly items: readonly Row[] } | undefined; readonly error: unknown }): Found<Row> {
  return { items: answer.data?.items ?? [], isLoading: answer.data === undefined && !answer.error, error: answer.error };
}

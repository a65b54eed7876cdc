/** A table with as many rows as there are: only those in view are in the page. `j` and `k` move, Enter opens. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { useLocation } from "wouter";

import { useKeys } from "../keys";

export interface Column<Row> {
  readonly name: string;
  readonly title: string;
  readonly cell: (row: Row) => ReactNode;
  /** A width of CSS grid; without it the column takes what is left. */
  readonly width?: string;
  readonly isNumber?: boolean;
  /** Left out where the page is narrow. */
  readonly isExtra?: boolean;
}

interface Props<Row> {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly idOf: (row: Row) => string;
  readonly linkOf?: (row: Row) => string | null;
  readonly chosen?: ReadonlySet<string>;
  readonly onChoose?: (id: string, isChosen: boolean) => void;
  readonly onEnd?: () => void;
  readonly rowHeight?: number;
}

const ROW_HEIGHT = 34;
const NEAR_END = 10;

export function DataTable<Row>({ label, rows, columns, idOf, linkOf, chosen, onChoose, onEnd, rowHeight = ROW_HEIGHT }: Props<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const [, navigate] = useLocation();
  // The row, not its place: rows may come above it while somebody looks.
  const [current, setCurrent] = useState<string | null>(null);
  const cursor = current === null ? -1 : rows.findIndex((row) => idOf(row) === current);
  // eslint-disable-next-line react-hooks/incompatible-library -- the list is measured again at each scroll, on purpose
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    getItemKey: (index) => {
      const row = rows[index];
      return row === undefined ? index : idOf(row);
    },
  });
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (onEnd !== undefined && rows.length > 0 && last >= rows.length - NEAR_END) onEnd();
  }, [last, rows.length, onEnd]);

  // Rows that come above what is in view must not move it.
  const seen = useRef(rows);
  useLayoutEffect(() => {
    const [view, before] = [box.current, seen.current];
    seen.current = rows;
    if (view === null || view.scrollTop === 0) return;
    const first = Math.floor(view.scrollTop / rowHeight);
    const row = before[first];
    const now = row === undefined ? -1 : rows.findIndex((one) => idOf(one) === idOf(row));
    if (now >= 0 && now !== first) view.scrollTop += (now - first) * rowHeight;
  }, [rows, rowHeight, idOf]);

  function move(step: number): void {
    const next = Math.min(rows.length - 1, Math.max(0, cursor + step));
    if (rows.length === 0) return;
    const row = rows[next];
    setCurrent(row === undefined ? null : idOf(row));
    virtual.scrollToIndex(next);
  }
  function open(): void {
    const row = rows[cursor];
    const target = row === undefined ? null : linkOf?.(row);
    if (target) navigate(target);
  }
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: open,
    x: () => {
      const row = rows[cursor];
      if (row !== undefined && onChoose !== undefined) onChoose(idOf(row), !(chosen?.has(idOf(row)) ?? false));
    },
  });

  const widths = [...(onChoose === undefined ? [] : ["2rem"]), ...columns.map((column) => column.width ?? "minmax(8rem, 1fr)")];
  const narrow = [
    ...(onChoose === undefined ? [] : ["2rem"]),
    ...columns.filter((column) => !column.isExtra).map((column) => column.width ?? "minmax(5rem, 1fr)"),
  ];
  const style = { "--columns": widths.join(" "), "--narrow": narrow.join(" ") } as React.CSSProperties;
  return (
    <div className="table" role="table" aria-label={label} aria-rowcount={rows.length + 1} style={style}>
      <div className="table-row table-head" role="row">
        {onChoose === undefined ? null : <span role="columnheader" aria-label="Chosen" />}
        {columns.map((column) => (
          <span key={column.name} role="columnheader" className={classOf(column)}>
            {column.title}
          </span>
        ))}
      </div>
      <div ref={box} className="table-body" role="rowgroup" tabIndex={0} aria-label={`Rows of ${label}`}>
        <div role="presentation" className="table-space" style={{ height: virtual.getTotalSize() }}>
          {shown.map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            const id = idOf(row);
            const target = linkOf?.(row) ?? null;
            return (
              <div
                key={item.key}
                role="row"
                aria-rowindex={item.index + 2}
                className={`table-row${item.index === cursor ? " cursor" : ""}${target === null ? "" : " link"}`}
                style={{ height: item.size, transform: `translateY(${item.start}px)` }}
                onClick={(event) => {
                  if (target !== null && !isControl(event.target)) navigate(target);
                }}
              >
                {onChoose === undefined ? null : (
                  <span role="cell">
                    <input
                      type="checkbox"
                      aria-label={`Choose ${id}`}
                      checked={chosen?.has(id) ?? false}
                      onChange={(event) => onChoose(id, event.target.checked)}
                    />
                  </span>
                )}
                {columns.map((column) => (
                  <span key={column.name} role="cell" className={classOf(column)}>
                    {column.cell(row)}
                  </span>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function classOf(column: { readonly isNumber?: boolean; readonly isExtra?: boolean }): string {
  return `cell${column.isNumber ? " number" : ""}${column.isExtra ? " extra" : ""}`;
}

/** A click on a link, a button or a field of a row is not a click on the row. */
function isControl(target: EventTarget): boolean {
  return target instanceof Element && target.closest("a, button, input, select, label, summary") !== null;
}

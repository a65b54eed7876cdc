/** Reading and changing through the service, as React hooks. A read is shared by its address and its parameters. */

import {
  keepPreviousData,
  QueryClient,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
  type UseMutationResult,
  type UseQueryResult,
} from "@tanstack/react-query";
import type { PathsWithMethod } from "openapi-typescript-helpers";

import { client, RequestFailed } from "./client";
import type { paths } from "./schema";

type ReadPath = PathsWithMethod<paths, "get">;
type Operation<P extends ReadPath> = paths[P] extends { readonly get: infer O } ? O : never;
export type Params<P extends ReadPath> =
  Operation<P> extends { readonly parameters: infer A }
    ? {
        readonly path?: A extends { readonly path: infer V } ? V : never;
        readonly query?: A extends { readonly query?: infer V } ? V : never;
      }
    : never;
export type Answer<P extends ReadPath> =
  Operation<P> extends {
    readonly responses: { readonly 200: { readonly content: { readonly "application/json": infer B } } };
  }
    ? B
    : unknown;
type Entry<P extends ReadPath> = Answer<P> extends { readonly items: readonly (infer I)[] } ? I : never;

interface Options {
  /** Ask again after so many milliseconds. */
  readonly every?: number | false;
  readonly enabled?: boolean;
  /** Show the answer to the parameters before, until the new one is there. */
  readonly keep?: boolean;
}

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      refetchOnWindowFocus: true,
      retry: (failures, error) => isPassing(error) && failures < 5,
      retryDelay: (failures) => Math.min(10_000, 500 * 2 ** failures),
    },
  },
});

function isPassing(error: unknown): boolean {
  return !(error instanceof RequestFailed) || error.problem.status === 0 || error.problem.status >= 500;
}

export function read<P extends ReadPath>(path: P, params: Params<P>, signal?: AbortSignal): Promise<Answer<P>> {
  // The types of the hook are stricter than what the library can follow through a generic parameter.
  const get = client.GET as unknown as (path: P, init: object) => Promise<{ data: Answer<P> }>;
  return get(path, { params, signal }).then((answer) => answer.data);
}

/** One object or one short list. */
export function useRead<P extends ReadPath>(path: P, params: Params<P>, options: Options = {}): UseQueryResult<Answer<P>> {
  return useQuery({
    queryKey: [path, params],
    queryFn: ({ signal }) => read(path, params, signal),
    refetchInterval: options.every ?? false,
    enabled: options.enabled ?? true,
    ...(options.keep ? { placeholderData: keepPreviousData } : {}),
  });
}

function pageOf<P extends ReadPath>(params: Params<P>, cursor: string | number | null): Params<P> {
  const { query, ...rest } = params as { readonly query?: object };
  return { ...rest, query: { ...query, ...(cursor === null ? {} : { cursor }) } } as unknown as Params<P>;
}

/** A long list, page by page: `more` reads the next page. */
export function usePages<P extends ReadPath>(path: P, params: Params<P>, options: Options = {}) {
  const found = useInfiniteQuery({
    queryKey: [path, params, "pages"],
    queryFn: ({ pageParam, signal }) =>
      read(path, pageOf(params, pageParam), signal),
    initialPageParam: null as string | number | null,
    getNextPageParam: (last) => (last as { next_cursor?: string | number | null }).next_cursor ?? null,
    refetchInterval: options.every ?? false,
    enabled: options.enabled ?? true,
    placeholderData: keepPreviousData,
  });
  const items = (found.data?.pages ?? []).flatMap((page) => [...(page as { items: readonly Entry<P>[] }).items]);
  return {
    items,
    isLoading: found.isPending,
    error: found.error,
    hasMore: found.hasNextPage,
    isReadingMore: found.isFetchingNextPage,
    more: () => {
      if (found.hasNextPage && !found.isFetchingNextPage) void found.fetchNextPage();
    },
  };
}

/** A plan stays as a person has read it; all other answers are read again when something has changed. */
export function isShown(query: { readonly queryKey: readonly unknown[] }): boolean {
  return query.queryKey[0] !== PLAN;
}

/** What the key of a plan begins with. */
export const PLAN = "plan";

/** A change. Afterwards everything that is shown is read again. */
export function useChange<Input, Result>(send: (input: Input) => Promise<Result>): UseMutationResult<Result, Error, Input> {
  const shared = useQueryClient();
  return useMutation({
    mutationFn: send,
    onSuccess: () => shared.invalidateQueries({ predicate: isShown }),
  });
}

/** The answer of a change, without what surrounds it. */
export async function sent<T>(answer: Promise<{ data?: unknown }>): Promise<T> {
  const { data } = await answer;
  return data as T;
}

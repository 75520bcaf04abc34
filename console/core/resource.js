import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "./api.js";

/** Reads a route when `input` changes. Returns `{data, error, isLoading, reload, set}`; old data stays until the new has arrived. */
export function useResource(route, input = {}) {
  const [state, setState] = useState({ data: null, error: null, isLoading: route !== null });
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify([route, input]);
  useEffect(() => {
    if (route === null) return;
    const stop = new AbortController();
    setState((old) => ({ ...old, isLoading: true }));
    call(route, input, { signal: stop.signal }).then(
      (data) => setState({ data, error: null, isLoading: false }),
      (error) => error.name === "AbortError" || setState({ data: null, error, isLoading: false }),
    );
    return () => stop.abort();
  }, [key, turn]);
  const set = (change) => setState((old) => ({ ...old, data: change(old.data) }));
  return { ...state, set, reload: () => setTurn((n) => n + 1) };
}

/** Reads a list page by page. `more` reads the next page. Returns `{items, error, isLoading, isWhole, more, reload, set}`. */
export function usePages(route, input = {}, { itemsOf = ({ items }) => items } = {}) {
  const none = { items: [], cursor: null, error: null, isLoading: false, isWhole: false };
  const [state, setState] = useState(none);
  const [turn, setTurn] = useState(0);
  const busy = useRef(null);
  const key = JSON.stringify([route, input]);
  const read = async (from) => {
    const stop = new AbortController();
    busy.current = stop;
    setState((old) => ({ ...old, isLoading: true, error: null }));
    try {
      const page = await call(
        route,
        { ...input, ...(from.cursor !== null && { cursor: from.cursor }) },
        { signal: stop.signal },
      );
      const items = [...from.items, ...itemsOf(page)];
      setState({ ...none, items, cursor: page.next_cursor ?? null, isWhole: (page.next_cursor ?? null) === null });
    } catch (error) {
      if (error.name !== "AbortError") setState((old) => ({ ...old, error, isLoading: false }));
    } finally {
      if (busy.current === stop) busy.current = null;
    }
  };
  useEffect(() => {
    void read(none);
    return () => {
      busy.current?.abort();
      busy.current = null;
    };
  }, [key, turn]);
  return {
    ...state,
    more: () =>
      busy.current === null && !state.isWhole && state.error === null && state.cursor !== null && void read(state),
    retry: () => void read(state),
    reload: () => setTurn((n) => n + 1),
    set: (change) => setState((old) => ({ ...old, items: change(old.items) })),
  };
}

import { Thread } from "./thread.js";

/** @import { Client, Hooks, ThreadOptions, ThreadView } from "./types.ts" */

/**
 * Returns the hook `useThread` for React or Preact, made from the framework's own hooks:
 * `const useThread = threadHook({ useState, useEffect, useMemo })`.
 * @param {Hooks} hooks
 */
export function threadHook({ useState, useEffect, useMemo }) {
  /**
   * Follows a thread while the component is mounted. Returns its view, and the thread for `send`, `steer`, `abort`, `decide`, `answer` and
   * `result`.
   * @param {Client} client
   * @param {ThreadOptions} options
   * @returns {ThreadView & { thread: Thread }}
   */
  return function useThread(client, { thread_id, manifest, model }) {
    const thread = useMemo(
      () => new Thread(client, { thread_id, manifest, ...(model !== undefined && { model }) }),
      [client, thread_id, manifest, model],
    );
    const [shown, show] = useState({ thread, view: thread.view });
    useEffect(() => {
      show({ thread, view: thread.view });
      return thread.subscribe((view) => show({ thread, view }));
    }, [thread]);
    // The state of an earlier thread is not shown as that of the present one.
    const view = shown.thread === thread ? shown.view : thread.view;
    return { ...view, thread };
  };
}

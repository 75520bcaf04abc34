/** Validated arguments of todo_write. */
interface WrittenTodos {
  readonly todos: readonly {
    readonly content: string;
    readonly status?: Todo["status"];
    readonly active_form?: string;
  }[];
}

/** One item of the list, as clients receive it in the frame and in the snapshot. */
export interface Todo {
  /** Its position in the list, from 1. */
  readonly id: string;
  readonly content: string;
  readonly status: "pending" | "in_progress" | "completed";
  readonly active_form: string;
}

/** Returns the list that an accepted call sets, from its arguments in the log. */
export function todosOf({ todos }: WrittenTodos): Todo[] {
  return todos.map(({ content, status = "pending", active_form = "" }, at) => {
    return { id: String(at + 1), content, status, active_form };
  });
}

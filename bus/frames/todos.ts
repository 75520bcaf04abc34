/** What todo_write is called with, once it has passed its schema. */
interface WrittenTodos {
  readonly todos: readonly {
    readonly content: string;
    readonly status?: Todo["status"];
    readonly active_form?: string;
  }[];
}

/** One item of the list as clients see it, in the frame and in the snapshot. */
export interface Todo {
  /** Its place in the list, counted from 1. */
  readonly id: string;
  readonly content: string;
  readonly status: "pending" | "in_progress" | "completed";
  readonly active_form: string;
}

/** The list that an accepted call makes, from its arguments as they stand in the log. */
export function todosOf({ todos }: WrittenTodos): Todo[] {
  return todos.map(({ content, status = "pending", active_form = "" }, at) => {
    return { id: String(at + 1), content, status, active_form };
  });
}

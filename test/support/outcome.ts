import { type ErrorCode, SvcError } from "../../bus/errors.ts";

/** How an ask has ended: its answer, or the code with which it was refused. Any other error is thrown. */
export type Outcome<T> = { readonly answer: T } | { readonly refused: ErrorCode };

export function outcomeOf<T>(asked: Promise<T>): Promise<Outcome<T>> {
  return asked.then(
    (answer) => ({ answer }),
    (error: unknown) => {
      if (error instanceof SvcError) return { refused: error.code };
      throw error;
    },
  );
}

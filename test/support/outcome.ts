import { SvcError } from "../../bus/errors.ts";

/** The outcome of an ask: its answer, or the code of its refusal. Other errors are thrown. */
export type Outcome<T> = { readonly answer: T } | { readonly refused: SvcError["code"] };

export function outcomeOf<T>(asked: Promise<T>): Promise<Outcome<T>> {
  return asked.then(
    (answer) => ({ answer }),
    (error: unknown) => {
      if (error instanceof SvcError) return { refused: error.code };
      throw error;
    },
  );
}

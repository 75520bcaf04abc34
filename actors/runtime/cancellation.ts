/** A one-time cancellation signal. Cheaper than an AbortSignal; every turn needs several. */
export class Cancellation {
  #cancelled = false;
  #listeners: (() => void)[] | null = null;

  get cancelled(): boolean {
    return this.#cancelled;
  }

  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    const listeners = this.#listeners;
    this.#listeners = null;
    for (const listener of listeners ?? []) listener();
  }

  /** Returns the result of `promise`; null as soon as the signal is cancelled. */
  orStopped<T>(promise: Promise<T>): Promise<T | null> {
    return new Promise((resolve, reject) => {
      const stopListening = this.onCancel(() => resolve(null));
      const settle = (done: () => void): void => {
        stopListening();
        done();
      };
      promise.then(
        (value) => settle(() => resolve(value)),
        (error: unknown) => settle(() => reject(error)),
      );
    });
  }

  /** Calls `listener` on cancellation, at once if already cancelled. Returns a function that removes the listener. */
  onCancel(listener: () => void): () => void {
    if (this.#cancelled) {
      listener();
      return () => {};
    }
    this.#listeners ??= [];
    this.#listeners.push(listener);
    return () => {
      this.#listeners = this.#listeners?.filter((other) => other !== listener) ?? null;
    };
  }
}

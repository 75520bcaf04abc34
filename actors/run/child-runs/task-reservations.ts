import { SvcError } from "../../../bus/errors.ts";
import type {
  BudgetReservation,
  BudgetUsed,
  ReservationReply,
  ReservationRequest,
} from "../../../bus/protocol/task.ts";
import { type Breach, isBreach, type ParentBudget, type Reservation } from "../../../governance/budget.ts";
import type { RunContext } from "../context/run-context.ts";

/** Min output tokens for a model call. With fewer, the call waits for other reservations to be settled. */
const outputMin = 256;

/** Max milliseconds that the end of a run waits for the last usage reports of its tasks. */
const settleMs = 1_000;

interface OpenReservation {
  readonly task_id: string;
  readonly reserved: Reservation;
  /** Id of the reservation in the parent run of this run; null for none. */
  readonly upstream: string | null;
}

/** Stores the usage of a durable run, which includes that of its tasks, so that the next process counts it too. Never rejects. */
export async function keepSpent({ durableRun, eventLog }: RunContext): Promise<void> {
  if (durableRun !== null) await eventLog.append([], durableRun.spentOps()).catch(() => {});
}

/** The reservations that the tasks of one run hold in its budget. */
export class TaskReservations {
  readonly #runContext: RunContext;
  readonly #reservations = new Map<string, OpenReservation>();
  /** Reservations that the parent run has not answered yet. */
  #asking = 0;
  #repaid = Promise.withResolvers<void>();

  constructor(runContext: RunContext) {
    this.#runContext = runContext;
    runContext.cancellation.onCancel(() => this.wake());
  }

  /** See `TaskFamily.reserve`. `isThere` returns true while the task may spend. Refuses with actor_lost. */
  async reserve(
    { task_id, input_tokens, output_tokens, rates }: ReservationRequest,
    isThere: () => boolean,
  ): Promise<ReservationReply> {
    const { deps, spec, cancellation } = this.#runContext;
    const { budget } = this.#runContext.billing;
    const price = rates && { ...rates, cache_read: 0, cache_write: 0 };
    if (price === null && spec.agent.manifest.spec.limits.max_cost_usd !== null)
      return { breach: { limit: "max_cost_usd", detail: "max_cost_usd: the model of the task has no price" } };
    for (;;) {
      if (cancellation.cancelled || !isThere()) throw new SvcError("actor_lost");
      const reserved = budget.reserve(input_tokens, output_tokens, price, deps.env.monotonic());
      const others = this.#reservations.size + this.#asking > 0;
      if (isBreach(reserved)) {
        if (!others) return { breach: reserved };
      } else if (!others || reserved.outputTokens >= Math.min(outputMin, output_tokens)) {
        return this.#lent(task_id, reserved);
      } else budget.settle(reserved, null, null);
      await this.#repaid.promise;
    }
  }

  repay(reservationId: string, used: BudgetUsed): void {
    const reservation = this.#reservations.get(reservationId);
    if (!reservation) return;
    this.#reservations.delete(reservationId);
    const { budget } = this.#runContext.billing;
    budget.settleReservation(reservation.reserved, used);
    if (reservation.upstream !== null) budget.parentBudget?.repay(reservation.upstream, used);
    // The log of the task has the model call that used it.
    this.#runContext.billing.tree?.flush();
    void keepSpent(this.#runContext);
    this.wake();
  }

  /** Settles the reservations of a task that makes no more calls. An open reservation counts as fully used. */
  end(taskId: string): void {
    for (const [id, { task_id, reserved }] of this.#reservations)
      if (task_id === taskId)
        this.repay(id, {
          input_tokens: reserved.inputTokens,
          output_tokens: reserved.outputTokens,
          cost_usd: reserved.costUsd,
        });
    this.wake();
  }

  /** Resolves when all reservations are settled, or after `settleMs`. */
  async settled(): Promise<void> {
    let isLate = false;
    const timer = this.#runContext.deps.env.timer(settleMs, () => {
      isLate = true;
      this.wake();
    });
    while (this.#reservations.size + this.#asking > 0 && !isLate) await this.#repaid.promise;
    timer.cancel();
  }

  /** Lets waiting calls check again for settled reservations. */
  wake(): void {
    this.#repaid.resolve();
    this.#repaid = Promise.withResolvers<void>();
  }

  /** Returns the reservation, after the parent run has reserved the amount too. */
  async #lent(task_id: string, reserved: Reservation): Promise<ReservationReply> {
    const { deps } = this.#runContext;
    const { budget } = this.#runContext.billing;
    const { inputTokens: input_tokens, outputTokens: output_tokens, costUsd: cost_usd } = reserved;
    const reservation = { reservation_id: deps.env.id(), input_tokens, output_tokens, cost_usd };
    if (budget.parentBudget === null) {
      this.#reservations.set(reservation.reservation_id, { task_id, reserved, upstream: null });
      return { reservation };
    }
    const above = await this.#askAbove(budget.parentBudget, reserved);
    if (above === null) throw new SvcError("actor_lost");
    if ("limit" in above) return { breach: above };
    this.#reservations.set(reservation.reservation_id, { task_id, reserved, upstream: above.reservation_id });
    return {
      reservation: {
        ...reservation,
        output_tokens: Math.min(output_tokens, above.output_tokens),
        cost_usd: Math.min(cost_usd, above.cost_usd),
      },
    };
  }

  /** Reserves the amount in the parent run. If that fails, for whatever reason, the own reservation is released. */
  async #askAbove(parentBudget: ParentBudget, reserved: Reservation): Promise<BudgetReservation | Breach | null> {
    const { inputTokens: input_tokens, outputTokens: output_tokens, price } = reserved;
    let above: BudgetReservation | Breach | null = null;
    this.#asking++;
    try {
      above = await parentBudget.reserve({ input_tokens, output_tokens }, price);
      return above;
    } finally {
      this.#asking--;
      if (above === null || "limit" in above) {
        this.#runContext.billing.budget.settle(reserved, null, null);
        this.wake();
      }
    }
  }
}

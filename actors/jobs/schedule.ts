import { Cron } from "croner";
import { SvcError } from "../../bus/errors.ts";

// When a job runs: five fields in UTC. croner says when the next time is; what it may be given is said here, because it also takes
// seconds, years, names, `@daily`, `L`, `#` and 7 for Sunday.

/** The fields in their order, with the lowest and the highest value of each. */
const fields = [
  { name: "minute", min: 0, max: 59 },
  { name: "hour", min: 0, max: 23 },
  { name: "day of month", min: 1, max: 31 },
  { name: "month", min: 1, max: 12 },
  { name: "day of week", min: 0, max: 6 },
] as const;

/** Longer than any five fields that say something once; it bounds what there is to read. */
const scheduleCharsMax = 400;
const itemPattern = /^(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:\/(\d{1,2}))?$/;

/**
 * The first minute after `after` that the schedule names, epoch milliseconds. A day is one that fits the day of month and the day of
 * week where one of them is `*`, and one that fits either of them where both say something. Refuses with invalid_schedule, also
 * what names no day that there ever is.
 */
export function nextTime(schedule: string, after: number): number {
  checkFields(schedule);
  // By the offset: a zone is looked up in a calendar of all zones, which takes 15 ms and 8 MiB to load.
  const cron = new Cron(schedule, { mode: "5-part", utcOffset: 0, domAndDow: false, paused: true });
  const next = cron.nextRun(new Date(after));
  if (next === null) throw invalid("it names a day that no month has");
  return next.getTime();
}

function checkFields(schedule: string): void {
  if (schedule.length > scheduleCharsMax) throw invalid(`it has more than ${scheduleCharsMax} characters`);
  const parts = schedule.split(" ");
  if (parts.length !== fields.length)
    throw invalid("it has five fields with one blank between them: minute, hour, day of month, month, day of week");
  for (const [at, field] of fields.entries())
    for (const item of (parts[at] as string).split(",")) checkItem(item, field);
}

function checkItem(item: string, { name, min, max }: (typeof fields)[number]): void {
  const match = itemPattern.exec(item);
  const [, from, to, step] = match ?? [];
  const isWhole = match !== null && (step === undefined || from === undefined || to !== undefined);
  if (!isWhole) throw invalid(`${name}: ${JSON.stringify(item)} is none of *, a, a-b, */n and a-b/n`);
  for (const value of [from, to])
    if (value !== undefined && (Number(value) < min || Number(value) > max))
      throw invalid(`${name} is ${min} to ${max}, and not ${value}`);
  if (to !== undefined && Number(to) < Number(from)) throw invalid(`${name}: ${item} ends before it begins`);
  if (step !== undefined && (Number(step) < 1 || Number(step) > max))
    throw invalid(`${name}: a step is 1 to ${max}, and not ${step}`);
}

function invalid(msg: string): SvcError {
  return new SvcError("invalid_schedule", {
    detail: [{ loc: ["body", "schedule"], msg, type: "invalid_schedule" }],
  });
}

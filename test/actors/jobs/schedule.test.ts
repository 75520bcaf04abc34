// When jobs run: the meaning of the five cron fields in UTC, and the schedules that are refused.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { nextTime } from "../../../actors/jobs/schedule.ts";
import { SvcError } from "../../../bus/errors.ts";

/** The times after `from` of a schedule, as `YYYY-MM-DDTHH:MM`. */
function times(schedule: string, from: string, count: number): string[] {
  const found: string[] = [];
  for (let at = Date.parse(from); found.length < count; ) {
    at = nextTime(schedule, at);
    found.push(new Date(at).toISOString().slice(0, 16));
  }
  return found;
}

describe("JOB-008 schedules", () => {
  const cases: readonly (readonly [what: string, schedule: string, from: string, times: readonly string[]])[] = [
    ["every minute", "* * * * *", "2026-01-01T00:00:00Z", ["2026-01-01T00:01", "2026-01-01T00:02"]],
    ["the time itself is not after itself", "30 4 * * *", "2026-01-01T04:30:00Z", ["2026-01-02T04:30"]],
    ["a millisecond before it is", "30 4 * * *", "2026-01-01T04:29:59.999Z", ["2026-01-01T04:30"]],
    ["steps", "*/25 * * * *", "2026-01-01T00:00:00Z", ["2026-01-01T00:25", "2026-01-01T00:50", "2026-01-01T01:00"]],
    [
      "steps of a range",
      "10-20/5 0 * * *",
      "2026-01-01T00:00:00Z",
      ["2026-01-01T00:10", "2026-01-01T00:15", "2026-01-01T00:20", "2026-01-02T00:10"],
    ],
    [
      "lists, in any order",
      "5,1,3-4 0 1 1 *",
      "2026-01-01T00:00:00Z",
      ["2026-01-01T00:01", "2026-01-01T00:03", "2026-01-01T00:04", "2026-01-01T00:05", "2027-01-01T00:01"],
    ],
    ["Sunday is 0", "0 0 * * 0", "2026-11-22T12:00:00Z", ["2026-11-29T00:00", "2026-12-06T00:00"]],
    [
      "the 13th or a Friday, where both are said",
      "0 0 13 * 5",
      "2026-11-01T00:00:00Z",
      [
        "2026-11-06T00:00",
        "2026-11-13T00:00",
        "2026-11-20T00:00",
        "2026-11-27T00:00",
        "2026-12-04T00:00",
        "2026-12-11T00:00",
        "2026-12-13T00:00",
      ],
    ],
    [
      "only the 13th, where the day of week is *",
      "0 0 13 * *",
      "2026-11-01T00:00:00Z",
      ["2026-11-13T00:00", "2026-12-13T00:00"],
    ],
    [
      "only Fridays, where the day of month is *",
      "0 0 * * 5",
      "2026-11-01T00:00:00Z",
      ["2026-11-06T00:00", "2026-11-13T00:00"],
    ],
    [
      "a step says something too",
      "0 0 */10 * 1",
      "2026-11-01T00:00:00Z",
      ["2026-11-02T00:00", "2026-11-09T00:00", "2026-11-11T00:00"],
    ],
    [
      "leap days, also over a year that has none",
      "0 0 29 2 *",
      "2026-01-01T00:00:00Z",
      ["2028-02-29T00:00", "2032-02-29T00:00"],
    ],
    ["leap days over 2100", "0 0 29 2 *", "2096-03-01T00:00:00Z", ["2104-02-29T00:00"]],
    [
      "months that have a 31st",
      "0 0 31 * *",
      "2026-04-01T00:00:00Z",
      ["2026-05-31T00:00", "2026-07-31T00:00", "2026-08-31T00:00"],
    ],
    [
      "30 February or a Sunday in February",
      "0 0 30 2 0",
      "2026-11-01T00:00:00Z",
      ["2027-02-07T00:00", "2027-02-14T00:00"],
    ],
    ["UTC where clocks elsewhere leap", "30 2 * * *", "2026-03-28T03:00:00Z", ["2026-03-29T02:30", "2026-03-30T02:30"]],
    ["over the end of a year", "59 23 31 12 *", "2026-12-31T23:59:00Z", ["2027-12-31T23:59"]],
  ];
  for (const [what, schedule, from, expected] of cases)
    test(`JOB-008 ${schedule}: ${what}`, () => {
      assert.deepEqual(times(schedule, from, expected.length), expected);
    });

  test("JOB-008 a schedule is independent of the time zone of the process", () => {
    const zone = process.env.TZ;
    try {
      for (const TZ of ["America/New_York", "Asia/Kolkata", "Pacific/Auckland"]) {
        process.env.TZ = TZ;
        assert.deepEqual(times("0 2 * 3 0", "2026-03-01T00:00:00Z", 2), ["2026-03-01T02:00", "2026-03-08T02:00"], TZ);
      }
    } finally {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
  });

  const refused = [
    ...[
      "",
      " ",
      "*",
      "* * * *",
      "* * * * * *",
      "0 * * * * *",
      "* * * * * 2026",
      " * * * * *",
      "* * * * * ",
      "*  * * * *",
    ],
    ...["*\t* * * *", "*\n* * * *", "@daily", "@reboot", "* * * JAN *", "* * * * MON", "* * * * sun", "? * * * *"],
    ...["* * L * *", "* * LW * *", "* * 1W * *", "* * * * 5L", "* * * * 5#2", "* * * * 7", "* * * * 0-7", "60 * * * *"],
    ...["* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "-1 * * * *", "1.5 * * * *", "+1 * * * *"],
    ...[
      "5/10 * * * *",
      "*/0 * * * *",
      "*/60 * * * *",
      "*/ * * * *",
      "/5 * * * *",
      "5-1 * * * *",
      "1- * * * *",
      "-5 * * * *",
    ],
    ...[
      "1-5-7 * * * *",
      "1,,2 * * * *",
      ",1 * * * *",
      "1, * * * *",
      "** * * * *",
      "*,* x * * *",
      "١ * * * *",
      "0x1 * * * *",
    ],
    ...["001 * * * *", "2026-01-01T00:00:00", "0 0 30 2 *", "0 0 31 2,4,6,9,11 *", `${"1,".repeat(200)}1 * * * *`],
  ];
  for (const schedule of refused)
    test(`JOB-008 ${JSON.stringify(schedule.slice(0, 30))} is refused with the reason`, () => {
      const error = outcome(schedule);

      assert.ok(error instanceof SvcError, String(error));
      assert.equal(error.code, "invalid_schedule");
      const [{ loc, msg }] = error.details.detail as [{ loc: string[]; msg: string }];
      assert.deepEqual(loc, ["body", "schedule"]);
      assert.ok(msg.length > 10 && msg.length < 200, msg);
    });
});

function outcome(schedule: string): unknown {
  try {
    return nextTime(schedule, 0);
  } catch (error) {
    return error;
  }
}

/** Messages to the actor that sweeps the jobs of skills: evaluations, and rewrites from feedback. There is one for all hosts. */
export interface SkillJobsMessages {
  /** Claims due jobs and works on them. No effect while a sweep is in progress. */
  sweep: { body: Record<string, never> };
}

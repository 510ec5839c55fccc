// SPDX-License-Identifier: Apache-2.0
// The answers of the server, as far as the page reads them. They are those of the command line with --json
// (docs/reference/json.md), and pictures.

export type Moment = { phase: string; micro_batch?: number; chunk?: number; layer?: number; operation?: string };
export type Alive = { name: string; category: string; count: number; bytes: number };
export type Peak = Moment & { allocated_bytes: number; reserved_bytes: number };
export type Row = { name: string; bytes: number; estimated: boolean };
export type Rank = {
  pp_rank: number;
  fits: boolean;
  parameters: number;
  capacity_bytes: number;
  device_used_bytes: number;
  headroom_bytes: number;
  headroom_pct: number;
  peak_allocated_bytes: number;
  peak_reserved_bytes: number;
  host_bytes: number;
  interval: { low_bytes: number; high_bytes: number };
  table: Row[];
  peak: Peak & { alive: Alive[] };
  second_peak?: Peak;
  out_of_memory?: Moment & { requested_bytes: number; tensor: string };
};
export type Change = {
  lever: string;
  label: string;
  lossless: boolean;
  settings: Record<string, string>;
  worst_rank: number;
  device_used_bytes: number;
  difference_bytes: number;
  time_share: number | null;
  fits: boolean;
};
export type Violation = { id: string; severity: string; wrong: string; prints: string[]; fix: string; source: string };
export type Fit = {
  fits: boolean;
  job: Record<string, unknown>;
  worst_rank: number;
  ranks: Rank[];
  host: { fits: boolean; bytes_per_node: number; capacity_bytes?: number };
  time: {
    step_seconds: number;
    tokens_per_second_per_gpu: number;
    tflops_per_gpu: number;
    mfu: number;
    interval: { low_seconds: number; high_seconds: number };
    parts: Record<string, number>;
  };
  changes: Change[];
  violations: Violation[];
  warnings: string[];
};

export type StepPeak = Moment & { allocated_bytes: number; reserved_bytes: number; event: number; seconds: number | null };
export type Step = {
  rank: number;
  capacity_bytes: number;
  outside_bytes: number;
  axis: 'events' | 'time';
  end: number;
  from: number;
  to: number;
  has_time: boolean;
  peak: StepPeak;
  second_peak?: StepPeak;
  event: number[];
  allocated: number[];
  lowest: number[];
  reserved: number[];
  bands: { name: string; bytes: number[] }[];
  moments: {
    phase: number[];
    operation: number[];
    micro_batch: number[];
    chunk: number[];
    layer: number[];
    phases: string[];
    operations: string[];
  };
  stretches?: { phase: string; micro_batch: number; chunk: number; from: number; to: number }[];
};
export type AliveAnswer = Moment & { event: number; allocated_bytes: number; reserved_bytes: number; alive: Alive[] };

/** A pass: from, to, 1 for forward, chunk, micro-batch; the last two are -1 for several passes in one bar. */
export type Pass = [number, number, number, number, number];
export type Schedule = {
  step_seconds: number;
  passes_end_seconds: number;
  ranks: Pass[][];
  after: { name: string; from: number; to: number }[];
};

export type KeyInfo = { name: string; section: string; type: string; help: string };

export function momentText(moment: Moment): string {
  const parts = [moment.phase];
  if (moment.micro_batch !== undefined && moment.micro_batch >= 0) parts.push(`micro-batch ${moment.micro_batch}`);
  if (moment.chunk !== undefined && moment.chunk > 0) parts.push(`chunk ${moment.chunk}`);
  if (moment.layer !== undefined && moment.layer >= 0) parts.push(`layer ${moment.layer}`);
  if (moment.operation) parts.push(moment.operation);
  return parts.join(' · ');
}

// Of a recording.
export type RecordingOverview = {
  has_history: boolean;
  is_counters?: boolean;
  events: number;
  objects: number;
  device: number;
  settings: string;
  has_times: boolean;
  has_stacks: boolean;
  seconds: number;
  exact: boolean;
  reproduced: number;
  peak_allocated: number;
  peak_reserved: number;
  peak_event: number;
  space_bytes: number;
  limit: number | null;
  oom_event?: number;
  oom_requested?: number;
  steps: [number, number][];
  warnings: string[];
};
export type RecordingColumns = {
  axis: 'events' | 'time';
  end: number;
  from: number;
  to: number;
  peak_at: number;
  peak_bytes: number;
  event: number[];
  allocated: number[];
  lowest: number[];
  reserved: number[];
  bands: { name: string; bytes: number[] }[];
};
/** A block: object, from, to, place, size, group. */
export type BlocksAnswer = {
  axis: 'events' | 'time';
  end: number;
  from: number;
  to: number;
  low: number;
  high: number;
  space_bytes: number;
  left_out: number;
  groups: string[];
  blocks: [number, number, number, number, number, number][];
};
export type SegmentsAnswer = {
  event: number;
  reserved: number;
  in_use: number;
  idle_returnable: number;
  idle_pinned: number;
  largest_idle: number;
  segments_in_all: number;
  groups: string[];
  segments: { address: string; size: number; expandable: boolean; blocks: [number, number, number, number][] }[];
  pinned: { address: string; size: number; idle: number; live_blocks: number; holders: { bytes: number; stack: string }[] }[];
};
/** A node: name, parent, bytes, objects. */
export type FlameAnswer = { event: number; bytes: number; nodes: [string, number, number, number][] };
export type ObjectAnswer = {
  object: number;
  address: string;
  requested: number;
  block: number;
  category: string;
  stream: number;
  birth: number | null;
  death: number | null;
  microseconds?: number;
  stack: string[];
};
export type Under = {
  setting: string;
  environment: string;
  peak_allocated: number;
  peak_reserved: number;
  retries: number;
  runs_out: boolean;
  from: number;
  to: number;
  reserved: number[];
};
export type Group = { name: string; bytes: number; objects: number; largest: number; stack?: string[] };
export type ReplayAnswer = {
  events: number;
  reproduced: number;
  peak_allocated: number | null;
  peak_reserved: number | null;
  fragmentation: number | null;
  recorded_settings: string;
  oom: { event?: number; requested: number; short_by: number | null; allocated: number; reserved: number; largest_free: number } | null;
  pinned: { reserved: number; in_use: number; idle_returnable: number; idle_pinned: number; largest_idle: number };
  peak?: { requested: number; categories: Group[]; modules: Group[]; stacks: Group[] };
  leaks?: {
    steps: number;
    by_optimizer_steps: boolean;
    growth_per_step: number;
    origins: { per_step: number; first: number; last: number; object_bytes?: number; stack: string[] }[];
  };
  what_if?: { settings: string; environment: string; peak_allocated: number; peak_reserved: number; fragmentation: number; oom: unknown; retries: number }[];
  warnings: string[];
};

export type DiffRow = { name: string; difference: number; bytes_a: number; objects_a: number; bytes_b: number; objects_b: number; stack_a?: string; stack_b?: string };
export type DiffSide = { file: string; events: number; peak_requested: number; peak_allocated: number; peak_reserved: number };
export type DiffAnswer = { a: DiffSide; b: DiffSide; difference: number; categories: DiffRow[]; origins: DiffRow[]; sizes: DiffRow[] };

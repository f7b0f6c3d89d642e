/** tfprof's options as the page sets them: what each takes, and sets of them that answer a question. */

export const NUMBERS = [
  "max_depth",
  "min_micros",
  "min_accelerator_micros",
  "min_cpu_micros",
  "min_bytes",
  "min_peak_bytes",
  "min_residual_bytes",
  "min_output_bytes",
  "min_params",
  "min_float_ops",
  "min_occurrence",
] as const;
export const REGEXES = [
  "show_name_regexes",
  "hide_name_regexes",
  "trim_name_regexes",
  "start_name_regexes",
  "account_type_regexes",
] as const;
export const ORDERS = [
  "micros",
  "accelerator_micros",
  "cpu_micros",
  "bytes",
  "peak_bytes",
  "residual_bytes",
  "output_bytes",
  "params",
  "float_ops",
  "occurrence",
  "name",
] as const;
export const SELECTS = [
  "micros",
  "accelerator_micros",
  "cpu_micros",
  "bytes",
  "peak_bytes",
  "residual_bytes",
  "output_bytes",
  "params",
  "float_ops",
  "occurrence",
  "device",
  "op_types",
  "input_shapes",
  "tensor_value",
] as const;

/** Options that are always to be seen; the others are when they are set. */
export const SHOWN = ["max_depth", "min_micros"] as const;
export const DEFAULT_SELECT = "micros";

export type Options = ReadonlyMap<string, string>;

export interface Preset {
  name: string;
  /** What it is for. */
  about: string;
  /** As they stand in an address. */
  options: readonly string[];
}

/** The first three are those that tfprof's Python builder has, under its names. */
export const PRESETS: readonly Preset[] = [
  {
    name: "time and memory",
    about: "tfprof's time_and_memory",
    options: ["max_depth:10000", "min_micros:1", "min_bytes:1", "select:micros,bytes"],
  },
  {
    name: "float operations",
    about: "tfprof's float_operation",
    options: [
      "max_depth:10000",
      "min_float_ops:1",
      "order_by:float_ops",
      "account_displayed_op_only:true",
      "select:float_ops",
    ],
  },
  {
    name: "trainable parameters",
    about: "tfprof's trainable_variables_parameter",
    options: [
      "max_depth:10000",
      "order_by:name",
      "account_type_regexes:_trainable_variables",
      "account_displayed_op_only:true",
      "select:params",
    ],
  },
  { name: "over 1 ms", about: "What takes a millisecond or more", options: ["min_micros:1000"] },
  {
    name: "device only",
    about: "By the time of the device",
    options: ["order_by:accelerator_micros", "min_accelerator_micros:1"],
  },
  {
    name: "host only",
    about: "By self time on the host",
    options: ["order_by:cpu_micros", "min_cpu_micros:1"],
  },
  {
    name: "held at the peak",
    about: "Who held memory at the peak",
    options: ["order_by:peak_bytes", "min_peak_bytes:1", "select:micros,bytes,peak_bytes,residual_bytes"],
  },
  {
    name: "most called",
    about: "By number of calls",
    options: ["order_by:occurrence", "min_occurrence:1", "select:micros,occurrence"],
  },
];

/** The options of an address, `name:value` each. */
export function optionsOf(list: readonly string[]): Options {
  return new Map(
    list.map((one) => [one.slice(0, one.indexOf(":")), one.slice(one.indexOf(":") + 1)] as const),
  );
}

/** A list with one option changed; the empty text is its default. */
export function changed(list: readonly string[], name: string, value: string): string[] {
  const rest = list.filter((one) => !one.startsWith(`${name}:`));
  return value === "" ? rest : [...rest, `${name}:${value}`];
}

/** The preset that is set, null where the options are none. */
export function presetOf(options: Options): Preset | null {
  const isSet = ([name, value]: [string, string]): boolean => options.get(name) === value;
  return (
    PRESETS.find(
      (preset) => preset.options.length === options.size && [...optionsOf(preset.options)].every(isSet),
    ) ?? null
  );
}

/** Whether a value can be one of an option; else why not. */
export function problemOf(name: string, value: string): string {
  if (value === "" || !(NUMBERS as readonly string[]).includes(name)) return "";
  return /^\d{1,15}$/.test(value) ? "" : `${name} takes a whole number`;
}

const ORDER_OF_KEY: readonly (readonly [RegExp, string])[] = [
  [/^(device|accelerator)_(total_|self_)?ns|^accelerator_ns|^device_ratio/, "accelerator_micros"],
  [/^(host|cpu)_(total_|self_)?ns|^cpu_ns|^host_ratio/, "cpu_micros"],
  [/^step_(total_|self_)?ns|^step_ratio|^total_ns|^micros_ratio/, "micros"],
  [/^(calls|occurrence)/, "occurrence"],
  [/^(flops$|float_ops)/, "float_ops"],
  [/^peak_bytes/, "peak_bytes"],
  [/^residual_bytes/, "residual_bytes"],
  [/^output_bytes/, "output_bytes"],
  [/^(bytes|moved_bytes$)/, "bytes"],
  [/^params/, "params"],
];

/** The `order_by` that sorts by a column, null where none does. */
export function orderOfColumn(key: string): string | null {
  return ORDER_OF_KEY.find(([rule]) => rule.test(key))?.[1] ?? null;
}

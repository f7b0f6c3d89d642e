/** The graph as tables. */
import type { Model, Scope } from "./model";
import { sizesText } from "./model";
import { csvOf } from "../chart/export/csv";

function below(model: Model, scope: Scope): Scope[] {
  let end = scope.at + 1;
  while (end < model.all.length && model.all[end]!.depth > scope.depth) end += 1;
  return model.all.slice(scope.at + (scope.path === "" ? 1 : 0), end);
}

/** Everything below a scope, with all that is known of it. */
export function scopesCsv(model: Model, scope: Scope): string[] {
  const head = [
    "path",
    "depth",
    "kind",
    "operation",
    "operations",
    "compute_microseconds",
    "memory_bytes",
    "flops",
    "parameters",
    "gradient_norm",
    "output_shapes",
  ];
  return [
    csvOf(
      head,
      below(model, scope).map((one) => [
        one.path,
        one.depth,
        one.node ? "operation" : "scope",
        one.op,
        one.operations,
        one.micros,
        one.memory,
        one.flops,
        one.parameters,
        one.gradient,
        one.node?.shapes.map(sizesText).join(", "),
      ]),
    ),
  ];
}

/** Every edge that leaves an operation below a scope. */
export function edgesCsv(model: Model, scope: Scope): string[] {
  const links = below(model, scope).flatMap((one) => model.outOf.get(one.path) ?? []);
  return [
    csvOf(
      ["from", "to", "kind", "shape"],
      links.map((link) => [
        link.from.path,
        link.to.path,
        link.control ? "order" : "data",
        sizesText(link.sizes),
      ]),
    ),
  ];
}

import { expect, it } from "vitest";
import { frameOf } from "./failure";

const at = (file: string, line: number, code: string) =>
  `  File "${file}", line ${line}, in f\n    ${code}\n`;
const own = at("/home/a/train.py", 12, "loss.backward()");
const torch = at("/usr/lib/python3.11/site-packages/torch/_tensor.py", 626, "run_backward()");

it.each([
  ["", ""],
  ["ValueError: no stack", ""],
  [`Traceback (most recent call last):\n${own}ValueError: x`, "/home/a/train.py:12 in f: loss.backward()"],
  [
    `Traceback (most recent call last):\n${own}${torch}RuntimeError: x`,
    "/home/a/train.py:12 in f: loss.backward()",
  ],
  [
    `Traceback (most recent call last):\n${torch}RuntimeError: x`,
    "/usr/lib/python3.11/site-packages/torch/_tensor.py:626 in f: run_backward()",
  ],
  ['  File "<string>", line 1, in <module>\nValueError: x', "<string>:1 in <module>"],
])("the frame of %j", (stack, frame) => {
  expect(frameOf(stack)).toBe(frame);
});

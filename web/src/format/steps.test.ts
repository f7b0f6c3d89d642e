import { expect, it } from "vitest";
import { stepsText } from "./steps";

it("names steps with their thousands apart, whatever their order", () => {
  expect(stepsText([7])).toBe("step 7");
  expect(stepsText([4001, 4000, 4002])).toBe("steps 4,000–4,002");
  expect(stepsText([10, 20, 30])).toBe("steps 10–30, 3 of them");
  expect(stepsText([])).toBe("no step");
});

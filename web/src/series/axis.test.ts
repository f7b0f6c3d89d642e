import { expect, test } from "vitest";
import { axisOf } from "./axis";

test("metrics of epochs have an axis of their own over steps", () => {
  expect(axisOf(["epoch_loss"], "step")).toBe("epochs");
  expect(axisOf(["keras/epoch_accuracy", "epoch_loss"], "step")).toBe("epochs");
});

test("all other charts share one", () => {
  expect(axisOf(["batch_loss"], "step")).toBe("common");
  expect(axisOf(["epoch"], "step")).toBe("common");
  expect(axisOf(["train/loss_epoch"], "step")).toBe("common");
  expect(axisOf(["epoch_loss", "train/loss"], "step")).toBe("common");
  expect(axisOf(["epoch_loss"], "relative")).toBe("common");
  expect(axisOf([], "step")).toBe("common");
});

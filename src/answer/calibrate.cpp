// SPDX-License-Identifier: Apache-2.0
#include "answer/calibrate.h"

#include <fmt/format.h>

#include "answer/json.h"
#include "base/bytes.h"
#include "cluster/device_name.h"
#include "timing/calibration.h"

namespace plimsoll::answer {

namespace {

void write_values(JsonWriter& json, const std::vector<measure::DerivedValue>& values) {
  json.begin_object();
  for (const measure::DerivedValue& value : values)
    json.key(value.name)
        .begin_object(Layout::kInline)
        .member("value", value.value)
        .member("source", value.source)
        .end_object();
  json.end_object();
}

void write_conditions(JsonWriter& json, std::string_view name, const measure::Conditions& conditions) {
  json.key(name)
      .begin_object(Layout::kInline)
      .member("sm_clock_mhz", conditions.clock_mhz)
      .member("memory_clock_mhz", conditions.memory_clock_mhz)
      .member("power_watts", conditions.power)
      .end_object();
}

void write_machine(JsonWriter& json, const measure::Survey& survey) {
  json.key("machine")
      .begin_object()
      .member("gpu_name", survey.device.name)
      .member("uuid", survey.device.uuid)
      .member("memory_bytes", survey.device.memory)
      .member("multiprocessors", survey.device.multiprocessors)
      .member("compute_capability", survey.device.capability)
      .member("gpus", survey.devices)
      .member("driver", survey.idle.driver)
      .member("cuda", survey.cuda)
      .member("sm_clock_most_mhz",
              survey.idle.clock_most_mhz > 0 ? survey.idle.clock_most_mhz : survey.device.clock_mhz)
      .member("power_limit_watts", survey.idle.power_limit);
  write_conditions(json, "idle", survey.idle);
  write_conditions(json, "loaded", survey.loaded);
  json.member("product_library", survey.product_library)
      .member("message_library", survey.message_library)
      .member("seconds", survey.took)
      .end_object();
}

void write_measured(JsonWriter& json, const measure::Survey& survey) {
  json.key("measured").begin_object();
  json.key("products").begin_array();
  for (const measure::ProductTime& time : survey.products)
    json.begin_object(Layout::kInline)
        .member("format", name_of(time.format))
        .member("pass", static_cast<int>(time.pass))
        .member("rows", time.shape.rows)
        .member("columns", time.shape.columns)
        .member("depth", time.shape.depth)
        .member("seconds", time.seconds)
        .member("warm", time.warm)
        .end_object();
  json.end_array();
  json.key("sustained")
      .begin_object(Layout::kInline)
      .member("first_seconds", survey.sustained.first)
      .member("last_seconds", survey.sustained.last)
      .end_object();
  json.key("copies").begin_array();
  for (const measure::CopyTime& copy : survey.copies)
    json.begin_object(Layout::kInline)
        .member("route", name_of(copy.route))
        .member("bytes", copy.bytes)
        .member("seconds", copy.seconds)
        .end_object();
  json.end_array();
  json.member("launch_seconds", survey.launch).member("small_kernel_seconds", survey.small_kernel);
  if (survey.host)
    json.key("host")
        .begin_object(Layout::kInline)
        .member("python", survey.host->python)
        .member("torch", survey.host->torch)
        .member("launches", survey.host->launches)
        .member("weights", survey.host->weights)
        .member("forward_seconds", survey.host->forward)
        .member("backward_seconds", survey.host->backward)
        .member("spread", survey.host->spread)
        .end_object();
  json.key("messages").begin_array();
  for (const measure::MessageTime& message : survey.messages)
    json.begin_object(Layout::kInline)
        .member("collective", name_of(message.collective))
        .member("bytes", message.bytes)
        .member("seconds", message.seconds)
        .end_object();
  json.end_array().end_object();
}

}  // namespace

Result<Calibrated> calibrate(const CalibrateQuestion& question, const Fraction& progress) {
  PLIMSOLL_TRY(cuda, measure::Cuda::load());
  PLIMSOLL_TRY(devices, cuda->devices());
  if (question.device < 0 || question.device >= static_cast<int>(devices.size()))
    return measure::missing(
        fmt::format("device {} was asked for; this machine has {}", question.device, devices.size()),
        "devices are counted from 0");
  const measure::DeviceInfo& device = devices[static_cast<std::size_t>(question.device)];
  const auto gpu = cluster::gpu_of_device(device.name, device.memory);
  if (!gpu)
    return measure::missing(
        fmt::format("{} with {} is not in the catalogue, and a calibration is in shares of its peaks", device.name,
                    format_bytes(device.memory)),
        "plimsoll gpus lists what is in it");
  measure::SurveyOptions options;
  options.device = question.device;
  options.quick = question.quick;
  options.python = question.python;
  options.folders = measure::library_folders(question.libraries);
  options.progress = progress;
  PLIMSOLL_TRY(survey, measure::survey(*cuda, options));
  measure::Derived derived = measure::derive(survey, *gpu);
  return Calibrated{gpu->id, std::move(survey), std::move(derived)};
}

std::string to_json(const Calibrated& calibrated) {
  JsonWriter json;
  json.begin_object()
      .member("kind", timing::kCalibrationKind)
      .member("schema", timing::kCalibrationSchema)
      .member("gpu", calibrated.gpu);
  write_machine(json, calibrated.survey);
  write_values(json.key("values"), calibrated.derived.values);
  json.key("devices").begin_object();
  write_values(json.key(calibrated.gpu), calibrated.derived.device);
  json.end_object();
  write_measured(json, calibrated.survey);
  write_texts(json, "left_out", calibrated.survey.left_out);
  return json.end_object().take();
}

}  // namespace plimsoll::answer

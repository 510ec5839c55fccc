// SPDX-License-Identifier: Apache-2.0
#include "document/json_writer.h"
#include "live/watch.h"

namespace plimsoll::live {

std::string to_json(const View& view) {
  document::JsonWriter json;
  json.begin_object(document::Layout::kInline).member("schema", 1).member("seconds", view.sample.seconds);
  json.key("devices").begin_array();
  for (const DeviceUse& device : view.sample.devices)
    json.begin_object()
        .member("index", device.index)
        .member("used", device.used)
        .member("total", device.total)
        .end_object();
  json.end_array().key("ranks").begin_array();
  for (const WatchedRank& rank : view.ranks) {
    json.begin_object().member("rank", rank.rank).member("host", rank.host).member("step", rank.step);
    json.member("step_seconds", rank.step_seconds)
        .member("allocated", rank.allocated)
        .member("reserved", rank.reserved);
    json.member("peak_allocated", rank.peak_allocated).member("peak_reserved", rank.peak_reserved);
    json.member("total", rank.total).member("predicted", rank.predicted).member("grows", rank.trend.rising);
    json.member("bytes_per_step", rank.trend.bytes_per_step).member("seconds_left", rank.trend.seconds_left);
    json.member("outlier", rank.is_outlier).member("ran_out", rank.ran_out).member("failed", rank.failed);
    json.member("ended", rank.ended).end_object();
  }
  json.end_array().member("host_available", view.sample.machine.available);
  json.member("host_run", view.sample.tree.bytes()).member("cgroup", view.sample.cgroup.current);
  json.member("cgroup_limit", view.sample.cgroup.limit).member("oom_kills", view.sample.cgroup.oom_kills);
  json.member("run_ended", view.ended.has_value());
  json.end_object();
  return json.take();
}

}  // namespace plimsoll::live

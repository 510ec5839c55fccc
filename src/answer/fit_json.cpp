// SPDX-License-Identifier: Apache-2.0
#include "answer/describe.h"
#include "answer/fit.h"
#include "answer/json.h"
#include "answer/lint.h"
#include "answer/words.h"

namespace plimsoll::answer {

namespace {

void write_moment(JsonWriter& json, const step::Moment& moment) {
  json.member("phase", step::text_of(moment.phase));
  if (moment.micro_batch >= 0) json.member("micro_batch", moment.micro_batch).member("chunk", moment.chunk);
  if (moment.layer >= 0) json.member("layer", moment.layer);
  if (moment.operation != step::Operation::kNone) json.member("operation", step::text_of(moment.operation));
}

void write_point(JsonWriter& json, const memory::PeakPoint& point) {
  write_moment(json, point.moment);
  json.member("allocated_bytes", point.allocated)
      .member("requested_bytes", point.requested)
      .member("reserved_bytes", point.reserved);
}

void write_rank(JsonWriter& json, const memory::RankAnswer& rank) {
  json.begin_object()
      .member("pp_rank", rank.pp_rank)
      .member("fits", rank.fits)
      .member("parameters", rank.parameters)
      .member("capacity_bytes", rank.capacity)
      .member("device_used_bytes", rank.device_used)
      .member("headroom_bytes", rank.headroom)
      .member("headroom_pct", percent_of(rank.headroom, rank.capacity))
      .member("peak_requested_bytes", rank.peak_requested)
      .member("peak_allocated_bytes", rank.peak_allocated)
      .member("peak_reserved_bytes", rank.peak_reserved)
      .member("outside_bytes", rank.outside)
      .member("host_bytes", rank.host_bytes)
      .member("nvme_bytes", rank.nvme_bytes);
  json.key("interval")
      .begin_object(Layout::kInline)
      .member("low_bytes", rank.low)
      .member("high_bytes", rank.high)
      .end_object();
  describe(json, rank.table);
  json.key("peak").begin_object();
  write_point(json, rank.peak);
  json.key("alive").begin_array();
  for (const memory::Alive& alive : rank.alive)
    json.begin_object(Layout::kInline)
        .member("name", step::text_of(alive.name))
        .member("category", step::text_of(step::category_of(alive.name)))
        .member("count", alive.count)
        .member("bytes", alive.bytes)
        .end_object();
  json.end_array().end_object();
  if (rank.second) {
    json.key("second_peak").begin_object();
    write_point(json, *rank.second);
    json.end_object();
  }
  if (rank.out_of_memory) {
    json.key("out_of_memory").begin_object();
    write_moment(json, rank.out_of_memory->moment);
    json.member("requested_bytes", rank.out_of_memory->requested)
        .member("tensor", step::text_of(rank.out_of_memory->name))
        .end_object();
  }
  json.key("phases").begin_array();
  for (std::size_t i = 0; i < rank.phases.size(); ++i)
    json.begin_object(Layout::kInline)
        .member("phase", step::text_of(static_cast<step::Phase>(i)))
        .member("peak_allocated_bytes", rank.phases[i].peak_allocated)
        .member("allocated_after_bytes", rank.phases[i].allocated_after)
        .end_object();
  json.end_array().end_object();
}

void write_host(JsonWriter& json, const memory::Host& host) {
  json.key("host")
      .begin_object(Layout::kInline)
      .member("fits", host.fits)
      .member("bytes_per_node", host.bytes_per_node)
      .member("nvme_bytes_per_node", host.nvme_per_node);
  if (host.gathered > 0) json.member("gathered_bytes", host.gathered);
  if (host.capacity > 0) json.member("capacity_bytes", host.capacity);
  json.end_object();
}

void write_changes(JsonWriter& json, const std::vector<lever::PricedChange>& changes) {
  json.key("changes").begin_array();
  for (const lever::PricedChange& priced : changes) {
    json.begin_object(Layout::kInline)
        .member("lever", priced.change.lever)
        .member("label", priced.change.label)
        .member("lossless", lever::lever_of(priced.change).lossless)
        .key("settings")
        .begin_object();
    for (const auto& [key, value] : priced.change.settings) json.member(key, value);
    json.end_object()
        .member("worst_rank", priced.worst_rank)
        .member("device_used_bytes", priced.device_used)
        .member("difference_bytes", priced.difference)
        .member("time_share", priced.slower)
        .member("fits", priced.fits)
        .end_object();
  }
  json.end_array();
}

void write_batching(JsonWriter& json, const Batching& batching) {
  const Batching::Samples& samples = batching.samples;
  json.key("batching").begin_object();
  json.key("samples")
      .begin_object(Layout::kInline)
      .member("mean_tokens", samples.mean)
      .member("median_tokens", samples.median)
      .member("p95_tokens", samples.p95)
      .member("longest_tokens", samples.longest)
      .member("cut_share", samples.cut_share)
      .end_object()
      .member("attends_within_samples", batching.within_samples)
      .member("waits_each_micro_batch", batching.waits_each_micro_batch)
      .key("rows")
      .begin_array();
  for (const Batching::Row& row : batching.rows) {
    json.begin_object(Layout::kInline).member("name", row.name);
    if (row.refused.empty()) {
      json.member("fits", row.fits)
          .member("device_used_bytes", row.device_used)
          .member("usual_bytes", row.usual)
          .member("samples_per_sequence", row.samples)
          .member("tokens_per_sequence", row.tokens)
          .member("real_share", row.real_share)
          .member("step_seconds", row.seconds)
          .member("real_tokens_per_second_per_gpu", row.tokens_per_second)
          .member("times_as_fast", row.times_as_fast);
    } else {
      json.member("refused", row.refused);
    }
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

std::string to_json(const Fit& fit) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("fits", fit.memory.fits);
  describe(json, fit.job);
  json.member("worst_rank", fit.memory.worst_of_all.pp_rank).key("ranks").begin_array();
  for (const memory::RankAnswer& rank : fit.memory.ranks) write_rank(json, rank);
  json.end_array().key("tensor_peak_bytes_by_stage").begin_array(Layout::kInline);
  for (const std::int64_t peak : fit.memory.peak_by_stage) json.value(peak);
  json.end_array();
  write_host(json, fit.memory.host);
  describe(json, fit.time);
  if (fit.batching) write_batching(json, *fit.batching);
  write_changes(json, fit.changes);
  describe(json, fit.violations);
  write_texts(json, "warnings", fit.memory.warnings);
  return json.end_object().take();
}

std::string to_json(const Sweep& sweep) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).key("sweep").begin_array();
  for (const SweepRow& row : sweep.rows) {
    json.begin_object().key("settings").begin_object(Layout::kInline);
    for (const auto& [key, value] : row.settings) json.member(key, value);
    json.end_object();
    if (row.price) {
      const memory::RankAnswer& rank = row.price->worst();
      json.member("fits", row.price->fits())
          .member("worst_rank", rank.pp_rank)
          .member("capacity_bytes", rank.capacity)
          .member("peak_allocated_bytes", rank.peak_allocated)
          .member("peak_reserved_bytes", rank.peak_reserved)
          .member("device_used_bytes", rank.device_used)
          .member("headroom_bytes", rank.headroom);
      json.member("step_seconds", row.price->time.seconds)
          .member("tokens_per_second_per_gpu", row.price->time.tokens_per_second_per_gpu);
      write_texts(json, "warnings", row.price->memory.warnings);
    } else {
      json.member("error", to_string(row.price.error()));
    }
    json.end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::answer

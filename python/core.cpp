// SPDX-License-Identifier: Apache-2.0
// plimsoll._core: the public C++ API for Python, as thin as it can be; python/plimsoll makes it pleasant. Whatever
// takes time releases the GIL; an error becomes an exception that carries code, message and hint.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <plimsoll/plimsoll.h>

namespace py = pybind11;
namespace api = plimsoll::api;

namespace {

// Thrown across the boundary only; the module's translator turns it into plimsoll.Error.
struct Failure {
  api::Error error;
};

template <class T>
T get(const api::Result<T>& result) {
  if (!result) throw Failure{result.error()};
  return *result;
}

api::Options options_of(const std::string& framework, const std::string& model, const std::string& gpu,
                        std::optional<std::int64_t> gpus, const std::string& config, bool strict,
                        const api::Settings& settings) {
  api::Options options;
  options.framework = framework;
  options.model = model;
  options.gpu = gpu;
  options.gpus = gpus;
  options.config = config;
  options.strict = strict;
  options.settings = settings;
  return options;
}

// Progress of long work, told to a Python function; the search itself runs without the GIL.
api::Progress told(const py::object& progress) {
  if (progress.is_none()) return {};
  return [progress](const std::string& text) {
    const py::gil_scoped_acquire held;
    progress(text);
  };
}

void bind_answers(py::module_& m) {
  py::class_<api::Answer>(m, "Answer")
      .def_property_readonly("yes", &api::Answer::yes)
      .def_property_readonly("warnings", &api::Answer::warnings)
      .def("json", &api::Answer::json, py::call_guard<py::gil_scoped_release>())
      .def("text", &api::Answer::text, py::arg("width") = 0, py::call_guard<py::gil_scoped_release>());

  py::class_<api::Row>(m, "Row")
      .def_readonly("name", &api::Row::name)
      .def_readonly("bytes", &api::Row::bytes)
      .def_readonly("estimated", &api::Row::estimated);
  py::class_<api::Rank>(m, "Rank")
      .def_readonly("pipeline_rank", &api::Rank::pipeline_rank)
      .def_readonly("fits", &api::Rank::fits)
      .def_readonly("capacity", &api::Rank::capacity)
      .def_readonly("device_used", &api::Rank::device_used)
      .def_readonly("headroom", &api::Rank::headroom)
      .def_readonly("peak_allocated", &api::Rank::peak_allocated)
      .def_readonly("peak_reserved", &api::Rank::peak_reserved)
      .def_readonly("low", &api::Rank::low)
      .def_readonly("high", &api::Rank::high)
      .def_readonly("table", &api::Rank::table);
  py::class_<api::StepTime>(m, "StepTime")
      .def_readonly("seconds", &api::StepTime::seconds)
      .def_readonly("low", &api::StepTime::low)
      .def_readonly("high", &api::StepTime::high)
      .def_readonly("tokens_per_second_per_gpu", &api::StepTime::tokens_per_second_per_gpu)
      .def_readonly("mfu", &api::StepTime::mfu);
  py::class_<api::Estimate>(m, "Estimate")
      .def_readonly("pipeline_rank", &api::Estimate::pipeline_rank)
      .def_readonly("tensors", &api::Estimate::tensors)
      .def_readonly("outside", &api::Estimate::outside)
      .def_readonly("capacity", &api::Estimate::capacity)
      .def_readonly("may_fit", &api::Estimate::may_fit)
      .def_readonly("time", &api::Estimate::time);
  py::class_<api::Fit, api::Answer>(m, "Fit")
      .def_property_readonly("fits", &api::Fit::fits)
      .def_property_readonly("ranks", &api::Fit::ranks)
      .def_property_readonly("worst", &api::Fit::worst)
      .def_property_readonly("time", &api::Fit::time);
}

void bind_jobs(py::module_& m) {
  py::class_<api::Job>(m, "Job").def(
      "with_settings", [](const api::Job& job, const api::Settings& settings) { return job.with(settings); });
  py::class_<api::World>(m, "World").def(py::init<>()).def_static("read", [](const std::string& path) {
    return get(api::World::read(path));
  });

  m.def(
      "read",
      [](const std::vector<std::string>& files, const std::vector<std::pair<std::string, std::string>>& texts,
         const std::string& framework, const std::string& model, const std::string& gpu,
         std::optional<std::int64_t> gpus, const std::string& config, bool strict, const api::Settings& settings) {
        const api::Options options = options_of(framework, model, gpu, gpus, config, strict, settings);
        const py::gil_scoped_release released;
        if (texts.empty()) return get(api::Job::read(files, options));
        std::vector<api::Source> sources;
        for (const auto& [name, text] : texts) sources.push_back({name, text});
        return get(api::Job::parse(sources, options));
      },
      py::arg("files"), py::arg("texts"), py::arg("framework"), py::arg("model"), py::arg("gpu"), py::arg("gpus"),
      py::arg("config"), py::arg("strict"), py::arg("settings"));
}

void bind_verbs(py::module_& m) {
  using Release = py::call_guard<py::gil_scoped_release>;
  m.def(
      "fit",
      [](const api::Job& job, const api::World& world, std::optional<std::int64_t> rank, bool all_ranks, bool changes) {
        return get(api::fit(job, world, {rank, all_ranks, changes}));
      },
      Release());
  m.def(
      "estimate", [](const api::Job& job, const api::World& world) { return get(api::estimate(job, world)); },
      Release());
  m.def(
      "understand", [](const api::Job& job, bool defaults) { return get(api::understand(job, defaults)); }, Release());
  m.def("lint", [](const api::Job& job) { return get(api::lint(job)); }, Release());
  m.def(
      "diff", [](const api::Job& a, const api::Job& b, const api::World& world) { return get(api::diff(a, b, world)); },
      Release());
  m.def(
      "climb",
      [](const api::Job& job, const api::World& world, bool numerics) { return get(api::climb(job, world, numerics)); },
      Release());
  m.def("plan", [](const std::vector<std::string>& files, const std::string& framework, const std::string& model,
                   const std::string& gpu, std::optional<std::int64_t> gpus, const api::Settings& settings,
                   const api::World& world, const std::vector<std::string>& fixed, const std::vector<std::string>& kept,
                   bool numerics, bool headroom, std::size_t top, const py::object& progress) {
    const api::Options options = options_of(framework, model, gpu, gpus, "", false, settings);
    const api::PlanOptions how{fixed, kept, numerics, headroom, top, told(progress)};
    const py::gil_scoped_release released;
    return get(api::plan(files, options, world, how));
  });
  m.def(
      "why",
      [](const std::vector<std::string>& logs, const api::World& world, const std::vector<std::string>& job,
         const std::string& snapshot, const std::string& gpu) {
        api::WhyOptions options;
        options.job = job;
        options.job_options.gpu = gpu;
        options.snapshot = snapshot;
        options.gpu = gpu;
        return get(api::why(logs, world, options));
      },
      Release());
  m.def(
      "score",
      [](const std::vector<std::string>& files, const api::World& world, const std::string& by) {
        return get(api::score(files, world, by));
      },
      Release());
  m.def(
      "rl",
      [](const std::string& file, const api::Settings& settings, const api::World& world) {
        return get(api::rl(file, settings, world));
      },
      Release());
  m.def("plan_rl", [](const std::string& file, const api::Settings& settings, const api::World& world, std::size_t top,
                      const py::object& progress) {
    const api::Progress teller = told(progress);
    const py::gil_scoped_release released;
    return get(api::plan_rl(file, settings, world, top, teller));
  });
  m.def(
      "observe_rl",
      [](const std::vector<std::string>& files, const api::Settings& settings) {
        return get(api::observe_rl(files, settings));
      },
      Release());
}

void bind_recordings(py::module_& m) {
  py::class_<api::Recording>(m, "Recording")
      .def_property_readonly("has_history", &api::Recording::has_history)
      .def("replay", [](const api::Recording& recording, std::optional<std::string> setting, bool what_if, bool tune,
                        bool peak, bool leaks, const py::object& progress) {
        const api::ReplayOptions options{std::move(setting), what_if, tune, peak, leaks, told(progress)};
        const py::gil_scoped_release released;
        return get(recording.replay(options));
      });
  m.def(
      "open",
      [](const std::string& path, std::optional<std::int64_t> device, const std::string& torch, const std::string& gpu,
         std::optional<std::int64_t> capacity, std::optional<double> fraction) {
        return get(api::Recording::open(path, {device, torch, gpu, capacity, fraction}));
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.attr("__version__") = api::version();
  m.attr("failed") = py::none();  // plimsoll/__init__.py puts its exception here
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      const py::object make = py::module_::import("plimsoll._core").attr("failed");
      const py::object error = make(failure.error.code, failure.error.message, failure.error.hint);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    }
  });
  bind_answers(m);
  bind_jobs(m);
  bind_verbs(m);
  bind_recordings(m);
}

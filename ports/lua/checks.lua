-- What upstream's libraries do, without anything that depends on time or place: the same output from each build.
local function show(...) print(...) end
show(string.format("%5.2f|%d|%x|%q|%s", 3.14159, 42, 255, "a\nb", nil), ("x"):rep(5, ","))
show(("hello world"):gsub("o", "0"), ("key=val"):match("(%w+)=(%w+)"), ("abc"):byte(1, -1))
show(string.pack("<i4z", 7, "q"):byte(1, -1))
show(utf8.char(228, 8364), utf8.len("äö"), #utf8.char(0x10FFFF))
show(math.type(1), math.type(1.0), 7 // 2, -7 // 2, 7 % -3, 2 ^ 10, 1 << 62, math.maxinteger + 1 == math.mininteger)
show(table.concat({ 1, 2, 3 }, "-"), table.unpack({ 1, 2, 3 }, 2), select("#", nil, nil))
local t = {}
for i = 1, 1000 do t[i] = i * 7919 % 1009 end
table.sort(t)
show(t[1], t[500], t[1000])
show(pcall(error, { code = 1 }), pcall(error, "text", 0), select(2, pcall(function() local x = nil; return x.y end)))
show(xpcall(function() error("deep") end, function(m) return "handled " .. m:match("deep") end))
local co = coroutine.create(function(a) local b = coroutine.yield(a + 1); error("in " .. b) end)
show(coroutine.resume(co, 1)); show(coroutine.resume(co, 2)); show(coroutine.status(co))
local weak = setmetatable({}, { __mode = "k" })
weak[{}] = 1; collectgarbage(); show(next(weak))
local closed = {}
do local c <close> = setmetatable({}, { __close = function() closed[1] = true end }) end
show(closed[1])
local mt = { __index = function(_, k) return k .. "?" end, __call = function(_, x) return x * 2 end,
  __concat = function(a, b) return "cat" end, __len = function() return 99 end, __lt = function() return true end }
local o = setmetatable({}, mt)
show(o.some, o(21), o .. "x", #o, o < o)
goto done
show("not here")
::done::
show(load("return 1 +")); show(load("return ...", "chunk", "t", {})(5))
show(#string.dump(function() return 1 end) > 0, load(string.dump(function() return 17 end), "b", "b")())
local f = assert(io.tmpfile()); f:write("one\ntwo\n", 3, "\n"); f:seek("set")
for l in f:lines() do show(l) end
f:close(); show(io.type(f))
show(os.time({ year = 2020, month = 1, day = 1, hour = 12 }) - os.time({ year = 2019, month = 12, day = 31, hour = 12 }))
local deep = 0
local function down(n) deep = deep + 1; if n > 0 then return down(n - 1) end end
down(100000); show(deep)
show(pcall(function() local function r() return 1 + r() end; return r() end))
show(pcall(string.rep, "x", 1 << 62))
collectgarbage("generational"); for i = 1, 20000 do local x = { i } end; collectgarbage("incremental")
show(collectgarbage("count") > 0)

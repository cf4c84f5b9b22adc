-- A visit of somebody who came before: KEYS[1] is the visitor; ARGV are the limit, the window in seconds and its generations.
-- Answers how many visits of the window are counted with this one, or 0 if it is one too many.
-- A hash has a field for each slice of the window that had visits. A span as long as the window touches one slice more
-- than it has generations, so that many are added up: nothing is forgotten before the window is over.
local limit, window, generations = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local slice = math.floor((time[1] * 1000000 + time[2]) / (window * 1000000 / generations))
local passed = 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if tonumber(field) < slice - generations then
    redis.call('HDEL', KEYS[1], field)
  else
    passed = passed + redis.call('HGET', KEYS[1], field)
  end
end
if passed >= limit then
  return 0
end
-- A counter that begins has the visit before this one, which was in the filter alone.
local more = passed == 0 and 2 or 1
redis.call('HINCRBY', KEYS[1], slice, more)
redis.call('EXPIRE', KEYS[1], math.ceil(window * (generations + 1) / generations))
return passed + more

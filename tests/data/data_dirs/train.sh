# A quadratic with its best value 0 at x = 3. Trial 3 does not end while the file exists.
if [ "$CLOUD_ML_TRIAL_ID" = 3 ] && [ -e /tmp/tunesmith-trial-3-waits ]; then exec tail -f /dev/null; fi
awk -v x="${1#--x=}" 'BEGIN { printf "loss=%.17g step=1\n", (x - 3) * (x - 3) }'
